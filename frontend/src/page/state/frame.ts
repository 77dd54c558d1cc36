// A page in a frame of its own kind is as high as what it shows, so that only the page around scrolls.

const [LOWEST, HIGHEST] = [320, 6000]; // pixels

export function growWithin(page: Document): void {
  page.documentElement.classList.add('within');
  const frame = page.defaultView?.frameElement as HTMLElement | null;
  if (frame === null) return;
  let [timer, now] = [0, 0];
  const fit = () => {
    // The body's own height, which does not depend on the frame's: so nothing chases its own tail.
    const height = Math.max(LOWEST, Math.min(HIGHEST, Math.ceil(page.body.getBoundingClientRect().height)));
    if (Math.abs(height - now) > 1) frame.style.height = `${(now = height)}px`;
  };
  new ResizeObserver(() => {
    clearTimeout(timer);
    timer = window.setTimeout(fit, 60);
  }).observe(page.body);
}
