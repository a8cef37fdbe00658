"""An OpenID provider, in a process of its own, that keeps strictly to the standard and can be told to break it.

It accepts a code once, for the client, the redirect_uri and the PKCE verifier that belong to it. `PUT /lie` takes the
name of the next lie that an ID token or an answer tells.
"""

import base64
import hashlib
import json
import secrets
import sys
import time
from typing import Any
from urllib.parse import parse_qs, urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

CLIENT, SECRET = "codehub", "client:secret+/ü"
KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}, auto_kid=False)
NEW_KEY = RSAKey.generate_key(2048, {"kid": "two", "use": "sig"}, auto_kid=False)
OTHER_KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}, auto_kid=False)
codes: dict[str, dict[str, str]] = {}
state: dict[str, Any] = {"lie": "", "claims": {"sub": "subject-1", "preferred_username": "ada"}, "rotated": False}


def issuer(request: Request) -> str:
    return f"http://{request.headers['host']}"


async def configuration(request: Request) -> Response:
    here = issuer(request)
    return JSONResponse(
        {
            "issuer": here,
            "authorization_endpoint": f"{here}/authorize",
            "token_endpoint": f"{here}/token",
            "userinfo_endpoint": f"{here}/userinfo",
            "jwks_uri": f"{here}/jwks",
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }
    )


async def jwks(_request: Request) -> Response:
    key = NEW_KEY if state["rotated"] else KEY
    return JSONResponse({"keys": [key.as_dict(private=False)]})


async def authorize(request: Request) -> Response:
    """Log in without asking: the tests have nobody to type a password."""
    given = dict(request.query_params)
    wanted = {"response_type": "code", "client_id": CLIENT, "code_challenge_method": "S256"}
    missing = {"redirect_uri", "scope", "state", "nonce", "code_challenge"} - set(given)
    if missing or any(given.get(name) != value for name, value in wanted.items()):
        return PlainTextResponse(f"wrong: {given}, missing: {missing}", 400)
    code = hashlib.sha256(given["state"].encode()).hexdigest()
    codes[code] = given
    answer = {"code": code, "state": given["state"], "iss": issuer(request)}
    if state["lie"] == "mix-up":
        answer["iss"] = "https://another.example.com"
    return RedirectResponse(f"{given['redirect_uri']}?{urlencode(answer)}", 303)


async def token(request: Request) -> Response:
    given = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
    flow = codes.pop(given.get("code", ""), None)
    credentials = f"{CLIENT}:client%3Asecret%2B%2F%C3%BC"
    basic = base64.b64encode(credentials.encode()).decode()
    if request.headers.get("authorization") != f"Basic {basic}":
        return JSONResponse({"error": "invalid_client"}, 401)
    verifier = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
    challenge = base64.urlsafe_b64encode(verifier).decode().rstrip("=")
    if flow is None or flow["code_challenge"] != challenge or flow["redirect_uri"] != given.get("redirect_uri"):
        return JSONResponse({"error": "invalid_grant"}, 400)
    return JSONResponse(
        {"access_token": "an access token", "token_type": "Bearer", "id_token": id_token(request, flow)}
    )


def id_token(request: Request, flow: dict[str, str]) -> str:
    now = int(time.time())
    claims: dict[str, Any] = {
        "iss": issuer(request), "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": flow["nonce"], **state["claims"],
    }  # fmt: skip
    lies: dict[str, dict[str, Any]] = {
        "issuer": {"iss": "https://another.example.com"},
        "audience": {"aud": "another client"},
        "two audiences": {"aud": [CLIENT, "another"]},
        "authorized party": {"aud": [CLIENT, "another"], "azp": "another"},
        "expired": {"exp": now - 120},
        "from the future": {"iat": now + 3600},
        "nonce": {"nonce": "another"},
        "subject": {"sub": ""},
        "number": {"sub": 7},
        "old login": {"auth_time": now - 3600},
        "at_hash": {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"},
    }
    lie = state["lie"]
    claims |= lies.get(lie, {})
    for name in ("nonce", "exp", "aud", "sub", "iss"):
        if lie == f"no {name}":
            del claims[name]
    if lie == "no signature":
        parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
        return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."
    if lie == "public key as a secret":
        secret = OctKey.import_key(KEY.as_pem(private=False))
        return jwt.encode({"alg": "HS256", "kid": "one"}, claims, secret, algorithms=["HS256"])
    if lie == "client secret":
        return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET), algorithms=["HS256"])
    if lie == "another key":
        return jwt.encode({"alg": "RS256", "kid": "one"}, claims, OTHER_KEY)
    if lie == "rubbish":
        return "rubbish"
    key = NEW_KEY if state["rotated"] else KEY
    return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)


async def logout_token(request: Request) -> Response:
    """Signed as an ID token is; what is posted takes the place of what it would say, null of nothing."""
    now = int(time.time())
    claims: dict[str, Any] = {
        "iss": issuer(request), "aud": CLIENT, "iat": now, "exp": now + 120, "jti": secrets.token_hex(8),
        "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
    } | await request.json()  # fmt: skip
    kept = {name: value for name, value in claims.items() if value is not None}
    key = OTHER_KEY if state["lie"] == "another key" else KEY
    return PlainTextResponse(jwt.encode({"alg": "RS256", "kid": "one", "typ": "logout+jwt"}, kept, key))


async def userinfo(_request: Request) -> Response:
    subject = "somebody else" if state["lie"] == "userinfo" else state["claims"]["sub"]
    return JSONResponse({"sub": subject, "groups": ["staff", "administrators"]})


async def tell(request: Request) -> Response:
    state.update(await request.json())
    return PlainTextResponse("")


app = Starlette(
    routes=[
        Route("/.well-known/openid-configuration", configuration),
        Route("/jwks", jwks),
        Route("/authorize", authorize),
        Route("/token", token, methods=["POST"]),
        Route("/userinfo", userinfo),
        Route("/logout_token", logout_token, methods=["POST"]),
        Route("/state", tell, methods=["PUT"]),
    ]
)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
