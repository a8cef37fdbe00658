/** Language and theme in a cookie: the pages that a visit to a workspace may show are drawn by the server. */

const YEAR_SECONDS = 31_536_000;

export function keepLook(): void {
  const { lang, dataset } = document.documentElement;
  // biome-ignore lint/suspicious/noDocumentCookie: the other way to set one is not in every browser yet
  document.cookie = `codehub_look=${lang}.${dataset.theme ?? "auto"}; Path=/; Max-Age=${YEAR_SECONDS}; SameSite=Lax`;
}
