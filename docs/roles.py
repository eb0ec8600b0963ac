"""What docstrings say in Sphinx's way, as the site shows it: ``:meth:`x``` is a link, ``::`` before code a colon.

A hook of mkdocs (see mkdocs.yml).
"""

import re

PIECE = re.compile(
    r'id="(?P<id>lt\w*(?:\.\w+)+)"|:(?:meth|class|attr|mod|func|data|exc|obj):<code>(?P<target>[^<]+)</code>'
)


def on_page_content(html, **_kwargs):
    """Return a page's HTML with links in place of roles."""
    ids = re.findall(r'id="(lt\w*(?:\.\w+)+)"', html)
    place = ""

    def shown(match):
        nonlocal place
        if match["id"]:
            place = match["id"]
            return match[0]
        name = match["target"].removeprefix("~")
        text = name.rpartition(".")[2] if match["target"].startswith("~") else name
        found = _find(name, place, ids)
        return f'<a href="#{found}"><code>{text}</code></a>' if found else f"<code>{text}</code>"

    html = PIECE.sub(shown, html)
    return html.replace("<p>::</p>", "").replace("::</p>", ":</p>")


def _find(name, place, ids):
    """Return which of a page's ids a name means, seen from the id in whose text it stands; empty for none of them."""
    owners = [place.rsplit(".", depth)[0] if depth else place for depth in range(3)]
    near = [f"{owner}.{name}" for owner in owners]
    far = [found for found in ids if found == name or found.endswith(f".{name}")]
    return next((candidate for candidate in near if candidate in ids), far[0] if len(set(far)) == 1 else "")
