// The waiting page: shows what is going on, and goes on when the workspace is ready. Without it the page reloads itself.
"use strict";
(() => {
  const page = document.querySelector("main[data-progress]");
  if (!page) return;
  const words = page.dataset;
  const show = (id, text) => { const to = document.getElementById(id); if (to && to.textContent !== text) to.textContent = text; };
  let since = Date.now() - 1000 * Number(words.elapsed || 0);
  let failures = 0;

  const amount = (bytes) => {
    const units = ["B", "KB", "MB", "GB", "TB"];
    let size = bytes, unit = 0;
    while (size >= 1000 && unit < units.length - 1) { size /= 1000; unit += 1; }
    return `${unit ? size.toFixed(1) : size} ${units[unit]}`;
  };
  setInterval(() => {
    const seconds = Math.max(0, Math.round((Date.now() - since) / 1000));
    show("elapsed", words.textElapsed.replace("{seconds}", seconds));
    if (seconds > Number(words.longAfter)) document.getElementById("long").hidden = false;
  }, 1000);

  const events = new EventSource(words.progress);
  events.addEventListener("progress", (event) => {
    failures = 0;
    const told = JSON.parse(event.data);
    show("step", told.step);
    show("usual", told.usual ? words.textUsual.replace("{seconds}", told.usual) : "");
    show("moved", told.bytes ? words.textMoved.replace("{amount}", amount(told.bytes)) : "");
    since = Date.now() - 1000 * told.elapsed;
  });
  events.addEventListener("go", () => { events.close(); location.reload(); });
  events.onerror = () => { failures += 1; if (failures > 5) { events.close(); setTimeout(() => location.reload(), 3000); } };
})();
