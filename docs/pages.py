"""Which of this folder's files are no pages of the site, and which pages the search finds first.

A hook of mkdocs (see mkdocs.yml).
"""

from mkdocs.structure.files import InclusionLevel


def on_nav(nav, files, **_kwargs):
    """Leave out the list of pages, which has been read by now."""
    files.get_file_from_path("nav.md").inclusion = InclusionLevel.EXCLUDED
    return nav


SEARCH = {"reference/": 0.02, "packages/": 0.2, "lightning-names": 0.1, "codes": 0.1, "mistakes": 0.1}
"""A question in a user's words has its answer in a guide; a name of the code is found in the reference all the same."""


def on_page_markdown(markdown, page, **_kwargs):
    """Weigh a page in the search by its place."""
    found = next((weight for place, weight in SEARCH.items() if page.file.src_uri.startswith(place)), None)
    if found is not None:
        page.meta.setdefault("search", {})["boost"] = found
    return markdown
