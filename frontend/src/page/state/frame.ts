// Height of the frame that contains the explorer: that of its content, so that only the outer page scrolls.

const [MIN_HEIGHT, MAX_HEIGHT] = [320, 6000]; // pixels

export function fitFrameHeight(page: Document): void {
  page.documentElement.classList.add('within');
  const frame = page.defaultView?.frameElement as HTMLElement | null;
  if (frame === null) return;
  let [timer, now] = [0, 0];
  const fit = () => {
    // The body's height does not depend on the frame's, so this does not loop.
    const height = Math.max(MIN_HEIGHT, Math.min(MAX_HEIGHT, Math.ceil(page.body.getBoundingClientRect().height)));
    if (Math.abs(height - now) > 1) frame.style.height = `${(now = height)}px`;
  };
  new ResizeObserver(() => {
    clearTimeout(timer);
    timer = window.setTimeout(fit, 60);
  }).observe(page.body);
}
