"""Where a link out of this folder leads in the site.

Pages are read in the repository too, where what the site makes is not there: so they link to a package's README or
api.txt, or to an example, and the site has a page of each. A hook of mkdocs (see mkdocs.yml).
"""

import re

OUTSIDE = re.compile(r"\]\(\.\./((?:\.\./)*)(packages|examples)/([^)#\s]+)")


def on_page_markdown(markdown, **_kwargs):
    """Lead links to the pages that the site makes of other files of the repository."""
    return OUTSIDE.sub(_linked, markdown)


def _linked(match):
    up, folder, path = match.groups()
    name, _, file = path.partition("/")
    if folder == "examples":
        heading = re.sub(r"[^\w-]", "", path.rpartition("/")[2])
        return f"]({up}examples.md#{heading}"
    return f"]({up}reference/{name.replace('-', '_')}.md" if file == "api.txt" else f"]({up}packages/{name}.md"
