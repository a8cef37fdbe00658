"""The pages, as HTML: plain forms and links that work without JavaScript, no inline script or style. Pure.

Everything that a person wrote is escaped. A page says what happened and what to do next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from urllib.parse import quote

from fastapi.responses import HTMLResponse

from codehub.model.visiting import PORTS
from codehub.model.workspace import WorkspaceId
from codehub.web.visit.words import LANGUAGES

ASSETS = "/.codehub"
_LONG_SECONDS = 20  # waiting, where nothing is known of how long it usually takes

_PAGE = """<!doctype html>
<html lang="{lang}" data-theme="{theme}"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · CodeHub</title><link rel="stylesheet" href="{assets}/visit.css">{head}</head>
<body>{body}<nav>{links}</nav></main></body></html>
"""


@dataclass(frozen=True, slots=True)
class Voice:
    """In which language, about which workspace, and where its pages and the dashboard are."""

    lang: str
    name: str
    main: str = ""  # the main origin, where that is another one
    theme: str = "auto"

    def say(self, key: str, **values: object) -> str:
        words = LANGUAGES[self.lang]
        return words[key].format(**{"name": self.name or words["name.unknown"], **values})


@dataclass(frozen=True, slots=True)
class Waiting:
    """What is going on."""

    operation: str
    elapsed: int  # seconds
    usual: int | None  # seconds
    bytes: int | None

    def as_dict(self, voice: Voice) -> Mapping[str, object]:
        return {
            "step": voice.say(f"step.{self.operation}"),
            "elapsed": self.elapsed,
            "usual": self.usual,
            "bytes": self.bytes,
        }


def waiting(voice: Voice, state: Waiting, progress: str) -> HTMLResponse:
    """`progress` is the path of the events."""
    data = {
        "progress": progress,
        "elapsed": state.elapsed,
        "long-after": max(_LONG_SECONDS, 3 * (state.usual or 0)),
        "text-elapsed": _raw(voice, "waiting.elapsed"),
        "text-usual": _raw(voice, "waiting.usual"),
        "text-moved": _raw(voice, "waiting.moved"),
    }
    attributes = "".join(f' data-{name}="{escape(str(value))}"' for name, value in data.items())
    usual = voice.say("waiting.usual", seconds=state.usual) if state.usual else ""
    body = (
        f'<main{attributes} aria-busy="true"><h1>{escape(voice.say("waiting.title"))}</h1>'
        f'<p id="step" role="status" aria-live="polite">{escape(voice.say(f"step.{state.operation}"))}</p>'
        "<progress></progress>"
        f'<p class="quiet"><span id="elapsed">{escape(voice.say("waiting.elapsed", seconds=state.elapsed))}</span> '
        f'<span id="usual">{escape(usual)}</span> <span id="moved"></span></p>'
        f'<p class="quiet">{escape(voice.say("waiting.text"))}</p>'
        f'<p id="long" hidden>{escape(voice.say("waiting.long"))}</p>'
    )
    head = (
        f'<noscript><meta http-equiv="refresh" content="3"></noscript><script src="{ASSETS}/visit.js" defer></script>'
    )
    return _answer(HTTPStatus.SERVICE_UNAVAILABLE, voice, voice.say("waiting.title"), body, head=head)


def opening(voice: Voice) -> HTMLResponse:
    """It runs; in a moment the gate knows, too."""
    body = f'{_main(voice, "waiting")}<p role="status">{escape(voice.say("step.NONE"))}</p><progress></progress>'
    return _answer(HTTPStatus.SERVICE_UNAVAILABLE, voice, voice.say("waiting.title"), body, head=_refresh(1))


def onward(voice: Voice, path: str) -> HTMLResponse:
    """Leads there, but not as a redirect: in path mode a workspace's page could follow that, and read what it finds."""
    body = f'{_main(voice, "waiting")}<p><a class="button" href="{escape(path)}">{escape(voice.say("again"))}</a></p>'
    head = f'<meta http-equiv="refresh" content="0; url={escape(path)}">'
    return _answer(HTTPStatus.OK, voice, voice.say("waiting.title"), body, head=head)


def needs(voice: Voice, what: str, workspace: WorkspaceId, back: str, form_origin: str) -> HTMLResponse:
    """`what` is archived or pending: a button asks for it to be brought up."""
    body = _main(voice, what) + _button(workspace, "start", back, voice.say(f"{what}.button"))
    return _answer(HTTPStatus.BAD_GATEWAY, voice, voice.say(f"{what}.title"), body, form_origin=form_origin)


def failed(
    voice: Voice, workspace: WorkspaceId, reason: str, message: str, *, safe_start: str | None, form_origin: str
) -> HTMLResponse:
    """`reason` is a code that there may be words for; the sentence is English. A safe start leads to `safe_start`."""
    body = _main(voice, "error")
    words = LANGUAGES[voice.lang].get(f"reason.{reason}", message)
    told = message if voice.lang == "en" and message else words
    if told:
        body += f"<p>{escape(voice.say('error.reason', reason=told))}</p>"
    body += f'<p><a class="button" href="/workspaces/{workspace}">{escape(voice.say("error.button"))}</a></p>'
    if safe_start is not None:
        body += f"<p>{escape(voice.say('error.safe_text'))}</p>"
        body += _button(workspace, "start-safely", safe_start, voice.say("error.safe"))
    return _answer(HTTPStatus.BAD_GATEWAY, voice, voice.say("error.title"), body, form_origin=form_origin)


def over_limit(
    voice: Voice, workspace: WorkspaceId, running: Sequence[tuple[WorkspaceId, str]], back: str, form_origin: str
) -> HTMLResponse:
    """What the visitor has running, with a button that stops it and opens this one."""
    text = voice.say("limit.text" if running else "limit.all")
    rows = "".join(
        f"<li>{_button(which, 'stop', back, voice.say('limit.stop', stop=name), opened=workspace)}</li>"
        for which, name in running
    )
    body = (
        f"<main><h1>{escape(voice.say('limit.title'))}</h1><p>{escape(text)}</p><ul>{rows}</ul>"
        f'<p><a class="button" href="{escape(back)}">{escape(voice.say("limit.again"))}</a></p>'
    )
    return _answer(HTTPStatus.BAD_GATEWAY, voice, voice.say("limit.title"), body, form_origin=form_origin)


def missing(voice: Voice) -> HTMLResponse:
    return _answer(HTTPStatus.NOT_FOUND, voice, voice.say("missing.title"), _main(voice, "missing"))


def unreachable(voice: Voice, port: int | None) -> HTMLResponse:
    title = voice.say("unreachable.title")
    text = voice.say("unreachable.text") if port is None else voice.say("unreachable.port", port=port)
    body = f"<main><h1>{escape(title)}</h1><p>{escape(text)}</p>"
    return _answer(HTTPStatus.BAD_GATEWAY, voice, title, body, head=_refresh(3))


def unavailable(voice: Voice) -> HTMLResponse:
    body = _main(voice, "unavailable")
    return _answer(HTTPStatus.SERVICE_UNAVAILABLE, voice, voice.say("unavailable.title"), body, head=_refresh(3))


def no_port(voice: Voice) -> HTMLResponse:
    text = voice.say("no_port.text", first=PORTS.start, last=PORTS.stop - 1)
    body = f"<main><h1>{escape(voice.say('no_port.title'))}</h1><p>{escape(text)}</p>"
    return _answer(HTTPStatus.NOT_FOUND, voice, voice.say("no_port.title"), body)


def dead_end(voice: Voice, what: str, back: str | None, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> HTMLResponse:
    """`what` is used, cookies or ports: nothing goes on by itself, but there is a way back."""
    body = _main(voice, what)
    if back is not None:
        body += f'<p><a class="button" href="{escape(back)}">{escape(voice.say("again"))}</a></p>'
    return _answer(status, voice, voice.say(f"{what}.title"), body)


def _main(voice: Voice, what: str) -> str:
    return f"<main><h1>{escape(voice.say(f'{what}.title'))}</h1><p>{escape(voice.say(f'{what}.text'))}</p>"


def _raw(voice: Voice, key: str) -> str:
    """With its {place} left open, for the script to fill."""
    return LANGUAGES[voice.lang][key]


def _button(workspace: WorkspaceId, verb: str, back: str, label: str, opened: WorkspaceId | None = None) -> str:
    action = f"/w/{workspace}/.codehub/{verb}?next={quote(back, safe='')}"
    action += f"&open={opened}" if opened is not None else ""
    return f'<form method="post" action="{escape(action)}"><button>{escape(label)}</button></form>'


def _refresh(seconds: int) -> str:
    return f'<meta http-equiv="refresh" content="{seconds}">'


def _answer(
    status: HTTPStatus, voice: Voice, title: str, body: str, *, head: str = "", form_origin: str = ""
) -> HTMLResponse:
    links = f'<a href="{escape(voice.main)}/">{escape(voice.say("dashboard"))}</a>'
    html = _PAGE.format(
        lang=voice.lang, theme=voice.theme, title=escape(title), assets=ASSETS, head=head, body=body, links=links
    )
    # Browsers hold a form to this also where its answer leads: to the workspace's own origin, in the end.
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
        f"form-action 'self' {form_origin}; frame-ancestors 'none'"
    )
    headers = {
        "Content-Security-Policy": policy,
        "Content-Language": voice.lang,
        "Vary": "Accept-Language, Cookie",
        "Referrer-Policy": "same-origin",  # without one, browsers send forms with the origin null
    }
    return HTMLResponse(html, status, headers)
