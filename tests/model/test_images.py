"""What the allow-list allows, and what it does not."""

import pytest

from codehub.model.images import allows, is_allowed, is_pattern, is_reference, usual

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    "reference",
    [
        "codercom/code-server",
        "codercom/code-server:latest",
        "python:3.11",
        f"registry.example:5000/team/ide@{DIGEST}",
        f"registry.example/team/ide:1@{DIGEST}",
        "localhost:5000/ide",
        "Registry.example/a__b/c-d.e:V1_x",
    ],
)
def test_references(reference: str) -> None:
    assert is_reference(reference)
    assert not is_pattern(reference)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "code-server",
            "/etc/passwd",
            "a/../b",
            "a//b",
            "a/b:",
            "a/b@sha256:12",
            "-x/y",
            "a/b c",
            "a/B",
            "a/b:c:d",
        ),
        *("http://registry.example/x", "a/b\n", "a/" + "b" * 600, "registry.example/team/*"),
    ],
)
def test_what_is_no_reference(text: str) -> None:
    assert not is_reference(text)


@pytest.mark.parametrize(
    ("entry", "image_ref"),
    [
        ("code-server", "code-server"),
        ("codercom/code-server:latest", "codercom/code-server:latest"),
        ("registry.example/team/*", "registry.example/team/ide"),
        ("registry.example/team/*", f"registry.example/team/deep/ide@{DIGEST}"),
        ("codercom/code-server:*", "codercom/code-server:4.9"),
        ("registry.example/*/ide:1", "registry.example/team/ide:1"),
        ("*", "anything.example/x/y:1"),
    ],
)
def test_allowed(entry: str, image_ref: str) -> None:
    assert allows(entry, image_ref)


@pytest.mark.parametrize(
    ("entry", "image_ref"),
    [
        ("code-server", "code-server:latest"),
        ("codercom/code-server:latest", "codercom/code-server"),
        ("codercom/code-server:latest", "evil.example/codercom/code-server:latest"),
        ("registry.example/team/*", "registry.example/team/"),
        ("registry.example/team/*", "registry.example/other/ide"),
        ("registry.example/team/*", "registry.example/team/../other/ide"),
        ("registry.example/team/*", "evil.example/registry.example/team/ide"),
        ("registry.example/team/*", "registryxexample/team/ide"),
        ("code-server:*", "code-server:5000/evil"),
        ("registry.example*", "registry.example.evil/x"),
        ("registry.example/team/*", "registry.example/team/*"),
        ("*", "code server"),
        ("*", "/etc/passwd"),
    ],
)
def test_not_allowed(entry: str, image_ref: str) -> None:
    assert not allows(entry, image_ref)


def test_a_list() -> None:
    entries = ("registry.example/team/*", "code-server")
    assert is_allowed("code-server", entries)
    assert is_allowed("registry.example/team/x:1", entries)
    assert not is_allowed("jupyterlab", entries)
    assert usual(entries) == "code-server"
    assert usual(entries[:1]) is None
