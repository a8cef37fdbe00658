// CodeHub's menu in an open IDE: how long the workspace runs, keep awake, stop; and why it is no longer running.
// It lives in a shadow tree beside the page, listens to no key of the IDE's, and asks nothing while nobody looks.
"use strict";
(() => {
  const script = document.currentScript;
  if (!script || window.top !== window || document.querySelector("codehub-menu")) return;
  const base = `${script.dataset.at || ""}/.codehub/menu/`;
  const MINIMIZED = "codehub-menu-minimized";
  const STYLE = `
    :host { all: initial; position: fixed; inset: auto 0 0 0; z-index: 2147483647; display: flex; flex-direction: column;
      align-items: center; pointer-events: none; font: 13px/1.45 system-ui, sans-serif; word-break: keep-all; color-scheme: light dark;
      --text: light-dark(#1c2321, #e6ebe8); --quiet: light-dark(#57635f, #a3b0ab); --ground: light-dark(#fff, #1b2220);
      --line: light-dark(#d5dbd8, #38423e); --key: light-dark(#2a6b59, #6cc3a8); --on-key: light-dark(#fff, #0e1a16) }
    :host([data-theme="light"]) { color-scheme: light } :host([data-theme="dark"]) { color-scheme: dark }
    @media print { :host { display: none } }
    [hidden] { display: none !important }
    .pill, .panel, .notice { pointer-events: auto; box-sizing: border-box; color: var(--text); background: var(--ground);
      border: 1px solid var(--line); box-shadow: 0 1px 6px #0003 }
    .pill { display: flex; align-items: center; gap: 6px; height: 24px; min-width: 28px; max-width: min(24rem, 60vw); padding: 0 8px;
      border-bottom: 0; border-radius: 8px 8px 0 0; font: inherit; font-size: 12px; cursor: pointer }
    .pill span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
    .pill .time { color: var(--quiet); flex: none }
    .dot { flex: none; width: 8px; height: 8px; border-radius: 50%; background: var(--key) }
    .dot.warn { background: light-dark(#b25e00, #f0b35c) } .dot.off { background: light-dark(#7b8581, #8b9590) }
    .panel { width: min(20rem, 94vw); margin-bottom: 4px; padding: 12px; border-radius: 10px }
    .notice { position: fixed; top: 12px; max-width: min(34rem, 94vw); padding: 12px 14px; border-radius: 10px; border-left: 4px solid var(--key) }
    .notice.warn { border-left-color: light-dark(#b25e00, #f0b35c) }
    .notice.soon { position: static; margin-bottom: 4px }
    h2 { margin: 0 0 2px; font-size: 14px; overflow-wrap: anywhere } p { margin: 0 0 8px; overflow-wrap: anywhere } .quiet { color: var(--quiet) }
    fieldset { margin: 0 0 8px; padding: 0; border: 0 } legend { padding: 0 0 4px; color: var(--quiet) }
    .row { display: flex; flex-wrap: wrap; gap: 6px; align-items: center }
    button.plain, a { font: inherit; min-height: 28px; padding: 3px 10px; box-sizing: border-box; border: 1px solid var(--line); border-radius: 7px;
      color: var(--text); background: transparent; text-decoration: none; cursor: pointer; display: inline-flex; align-items: center }
    button.key, a.key { color: var(--on-key); background: var(--key); border-color: transparent }
    button:hover, a:hover { filter: brightness(.93) } button:disabled { opacity: .6; cursor: default }
    button:focus-visible, a:focus-visible { outline: 3px solid light-dark(#1769aa, #7cc0f5); outline-offset: 1px }`;

  const host = document.createElement("codehub-menu");
  const root = host.attachShadow({ mode: "open" });
  let look = null, status = null, receivedAt = 0, isOver = false; // over: nobody is logged in any more
  let wasAway = false, dismissed = "", shownNotice = "", isMinimized = kept();

  function kept() { try { return localStorage.getItem(MINIMIZED) === "1"; } catch { return false; } }
  function keep(value) { try { localStorage.setItem(MINIMIZED, value ? "1" : "0"); } catch { /* then not */ } }
  const say = (key, values = {}) => (look.words[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
  function make(tag, given = {}, ...inside) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(given)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...inside);
    return made;
  }
  const since = () => (performance.now() - receivedAt) / 1000;
  const left = (seconds) => Math.max(0, seconds - since());
  function length(seconds) {
    if (seconds < 60) return say("seconds", { n: Math.round(seconds) });
    const minutes = Math.round(seconds / 60);
    if (minutes < 60) return say("minutes", { n: minutes });
    return say("hours", { n: Math.round(minutes / 30) / 2 });
  }

  // What is drawn.
  const dot = make("i", { class: "dot" });
  const name = make("span"), time = make("span", { class: "time" });
  const pill = make("button", { class: "pill", type: "button", "aria-expanded": "false", onclick: () => toggle(panel.hidden) }, dot, name, " ", time);
  pill.addEventListener("mousedown", (event) => event.preventDefault()); // who types goes on typing
  const panel = make("section", { class: "panel", hidden: true });
  const notice = make("section", { class: "notice", role: "status", hidden: true });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  root.adoptedStyleSheets = [sheet];
  root.append(notice, panel, pill);
  let before = null; // what had the keyboard

  function toggle(open) {
    panel.hidden = !open;
    pill.setAttribute("aria-expanded", String(open));
    if (!open) { if (root.activeElement) (before ?? pill).focus?.(); before = null; return; }
    before = document.activeElement === host ? null : document.activeElement;
    drawPanel();
    if (root.activeElement === pill) panel.querySelector("button, a")?.focus();
  }
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !panel.hidden) { toggle(false); pill.focus(); }
    event.stopPropagation(); // what is pressed in here is not for the IDE
  });
  document.addEventListener("pointerdown", (event) => { if (!panel.hidden && event.target !== host) toggle(false); }, true);

  function lifetime() {
    if (status.awake_for !== null) return say("awake", { time: length(left(status.awake_for)) });
    if (status.stops_in === null) return say("never");
    return left(status.stops_in) > 0 ? say("stops", { time: length(left(status.stops_in)) }) : say("stops_soon");
  }
  function button(words, act, more = {}) { return make("button", { class: "plain", type: "button", onclick: act, ...more }, words); }
  const link = (words, href, more = {}) => make("a", { href, ...more }, words);

  function drawPanel() {
    const title = make("h2", {}, status.name);
    const inside = [title, make("p", { class: "quiet", id: "life" }, status.state === "running" ? lifetime() : say(status.state, { name: status.name }))];
    if (status.state === "running" && status.may_change) {
      const choices = look.hours.map((hours) => button(say("hours", { n: hours }), () => ask(`keep-awake?hours=${hours}`), { "aria-label": `${say("keep")}: ${say("hours", { n: hours })}` }));
      if (status.awake_for !== null) choices.push(button(say("off"), () => ask("keep-awake?hours=0")));
      inside.push(make("fieldset", {}, make("legend", {}, say("keep")), make("div", { class: "row" }, ...choices)));
      const stop = button(say("stop"), () => {
        if (stop.dataset.sure) { ask("stop"); return; }
        stop.dataset.sure = "1";
        stop.textContent = say("stop_sure");
      });
      inside.push(make("div", { class: "row" }, stop, link(say("back"), look.dashboard), minimizer()));
    } else {
      inside.push(make("div", { class: "row" }, link(say("back"), look.dashboard), minimizer()));
    }
    panel.setAttribute("aria-label", say("label", { name: status.name }));
    panel.replaceChildren(...inside);
  }
  function minimizer() {
    return button(say(isMinimized ? "expand" : "minimize"), () => { isMinimized = !isMinimized; keep(isMinimized); toggle(false); draw(); });
  }

  // Which notice there is to show: its key, what it says, what can be done. None is shown again after it was dismissed.
  function noticeNow() {
    const named = { name: status?.name ?? "" };
    const again = button(say("again"), () => location.reload(), { class: "plain key" });
    const back = link(say("back"), look.dashboard);
    if (isOver) return ["over", say("over"), "", [button(say("login"), () => location.reload(), { class: "plain key" }), back]];
    const { state, reason } = status;
    if (state === "running") {
      if (wasAway) return ["back", say("running_again", named), "", [button(say("reload"), () => location.reload(), { class: "plain key" }), closer()]];
      const due = status.stops_in === null ? Infinity : left(status.stops_in);
      if (status.awake_for !== null || due > status.notice_seconds) return null;
      const keeper = button(say("keep_for", { time: say("hours", { n: look.hours[0] }) }), () => ask(`keep-awake?hours=${look.hours[0]}`), { class: "plain key" });
      return ["idle", say("notice", { ...named, time: length(due) }), "", [...(status.may_change ? [keeper] : []), closer()], "warn soon"];
    }
    const why = reason ? say(`reason.${reason}`) : status.message;
    if (state === "starting") return ["starting", say("starting", named), "", []];
    if (state === "stopping") return ["stopping", say("stopping", named), why, [back]];
    if (state === "error") return ["error", say("error", named), why, [link(say("details"), look.workspace, { class: "key" }), back], "warn"];
    if (state === "gone") return ["gone", say("gone", named), why, [back], "warn"];
    return [state, say(state, named), why, [again, back]];
  }
  const closer = () => button(say("dismiss"), () => { dismissed = shownNotice; wasAway = false; draw(); });

  function draw() {
    if (!look || (!status && !isOver)) return;
    host.lang = look.lang;
    host.dataset.theme = look.theme;
    if (!host.isConnected) document.documentElement.append(host); // also where the page has thrown it out
    const found = noticeNow();
    if (found?.[0] !== dismissed) dismissed = "";
    const [key, title, text, actions, kind] = found && found[0] !== dismissed ? found : ["", "", "", []];
    if (key !== shownNotice) {
      notice.className = `notice ${kind ?? ""}`;
      notice.replaceChildren(make("h2", {}, title), make("p", { class: "quiet", hidden: !text }, text), make("div", { class: "row" }, ...actions));
      shownNotice = key;
    } else if (key && notice.firstChild.textContent !== title) notice.firstChild.textContent = title;
    notice.hidden = !key;
    if (!status) { pill.hidden = true; panel.hidden = true; return; }
    const running = status.state === "running" && !isOver;
    dot.className = `dot ${!running ? "off" : found?.[4] ?? ""}`;
    name.textContent = status.name;
    time.textContent = running && status.awake_for === null && status.stops_in !== null ? length(left(status.stops_in)) : "";
    name.hidden = isMinimized;
    time.hidden = isMinimized || !time.textContent;
    const label = say("label", { name: status.name });
    pill.title = running ? `${label}: ${lifetime()}` : label;
    if (isMinimized) pill.setAttribute("aria-label", label);
    else pill.removeAttribute("aria-label");
    const life = panel.querySelector("#life");
    if (!panel.hidden && life && running) life.textContent = lifetime();
  }
  setInterval(draw, 1000);

  async function ask(what) {
    for (const each of root.querySelectorAll("button.plain")) each.disabled = true;
    try {
      const answer = await fetch(base + what, { method: "POST", credentials: "same-origin" });
      if (answer.ok && !panel.hidden) { toggle(false); }
    } catch { /* what there is now is shown */ }
    for (const each of root.querySelectorAll("button.plain")) each.disabled = false;
  }

  // What is told: lines of JSON, for as long as somebody looks at the tab.
  let asking = null, failures = 0, timer = 0;
  function take(told) {
    if (told.menu) look = told.menu;
    if (told.status) {
      const isChanged = !panel.hidden && (status?.awake_for === null) !== (told.status.awake_for === null);
      status = told.status;
      receivedAt = performance.now();
      isOver = false;
      failures = 0;
      if (status.state !== "running") wasAway = true;
      if (status.state !== "running" && !panel.hidden) toggle(false);
      else if (isChanged) drawPanel();
    }
    draw();
  }
  async function listen() {
    clearTimeout(timer);
    if (asking || document.hidden) return;
    const mine = (asking = new AbortController());
    try {
      const answer = await fetch(`${base}status`, { credentials: "same-origin", cache: "no-store", signal: mine.signal });
      if (!answer.ok) {
        if ([401, 403, 404].includes(answer.status) && look) { isOver = true; draw(); }
        throw new Error(String(answer.status));
      }
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines) if (line) take(JSON.parse(line));
      }
    } catch { failures += 1; }
    if (asking === mine) asking = null;
    timer = setTimeout(listen, (0.5 + Math.random()) * Math.min(30000, 1000 * 2 ** Math.min(failures, 5)));
  }
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) { listen(); return; }
    asking?.abort();
    asking = null;
  });
  addEventListener("pagehide", () => asking?.abort());
  listen();
})();
