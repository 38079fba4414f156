// uPlot formats numbers in the browser's language while it loads. Under a POSIX locale, Chromium names a language that
// Intl refuses (en-US@posix), and the page would stay empty. So this module is imported before uPlot.
try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en" });
}
