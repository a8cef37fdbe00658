"""After a login the browser goes to a path of ours, whatever it was asked to do."""

import pytest

from codehub.web.redirects import local_path


@pytest.mark.parametrize("path", ["/", "/w/7/", "/w/7/?folder=/home/coder&x=%2F%2Fy#z", "/a%20b", "/w/7/a//b"])
def test_our_own_paths(path: str) -> None:
    assert local_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        None, "", "w/7", "https://evil.example", "//evil.example", "///evil.example", "/\\evil.example",
        "\\\\evil.example", "/%2fevil.example", "/%2Fevil.example", "/%5cevil.example", "/%252fevil.example",
        "/%25252fevil.example", "/%2525252525252fevil.example", "/\t/evil.example", "/\n/evil.example",
        "/%09/evil.example", "\t//evil.example", " //evil.example", "javascript:alert(1)", "http:evil.example",
        "/%0d%0aSet-Cookie:x=y", "/\r\nSet-Cookie: x=y", "/é", "／／evil.example", "/" + "a" * 3000,
    ],
)  # fmt: skip
def test_anything_else_is_the_first_page(path: str | None) -> None:
    assert local_path(path) == "/"
