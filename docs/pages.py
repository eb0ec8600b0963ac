"""Which of this folder's files are no pages of the site.

A hook of mkdocs (see mkdocs.yml).
"""

from mkdocs.structure.files import InclusionLevel


def on_nav(nav, files, **_kwargs):
    """Leave out the list of pages, which has been read by now."""
    files.get_file_from_path("nav.md").inclusion = InclusionLevel.EXCLUDED
    return nav
