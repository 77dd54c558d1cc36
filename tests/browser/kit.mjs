// Shared by all tasks: Chromium, a page that is open and idle, and the problems that occurred.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

export const { address, frontend, chromium: executablePath, task, given } = JSON.parse(process.argv[2]);
const require = createRequire(`${frontend}/package.json`);
const { chromium } = require('playwright-core');
export const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const sandbox = process.getuid() === 0 ? ['--no-sandbox'] : [];
export const browser = await chromium.launch({
  executablePath,
  args: ['--disable-dev-shm-usage', '--font-render-hinting=none', '--force-color-profile=srgb', ...sandbox],
});
export const troubles = []; // requests to other hosts, errors of the page

export const at = (hash) => (address.startsWith('file:') ? address + hash : `${address}/${hash}`); // a saved file is opened directly

/** Records errors and warnings of a page. */
export function noteTroubles(page) {
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && troubles.push(message.text()));
  page.on('pageerror', (error) => troubles.push(error.message));
}

export async function opened({ scheme = 'light', width = 1280, hash = '', forced = 'none' } = {}) {
  const context = await browser.newContext({
    reducedMotion: 'reduce', locale: 'en-GB', colorScheme: scheme, forcedColors: forced, viewport: { width, height: 900 },
  });
  await context.route('**/*', (route) => {
    const url = route.request().url();
    if (url.startsWith(address) || url.startsWith('data:')) return route.continue();
    troubles.push(`asked for ${url}`);
    return route.abort();
  });
  const page = await context.newPage();
  watch(page);
  noteTroubles(page);
  await page.goto(at(hash));
  await settled(page);
  return page;
}

const QUIET = 100; // milliseconds without a request: follow-up requests start within a frame or two
const traffic = new WeakMap(); // for each page: running requests, and when one last began or ended

function watch(page) {
  const seen = { under_way: 0, at: Date.now() };
  const count = (change) => () => ((seen.under_way += change), (seen.at = Date.now()));
  page.on('request', count(1));
  page.on('requestfinished', count(-1));
  page.on('requestfailed', count(-1));
  traffic.set(page, seen);
}

/** Like Playwright's "networkidle", which always waits half a second. */
async function quiet(page) {
  const seen = traffic.get(page);
  if (!seen) return page.waitForLoadState('networkidle');
  const end = Date.now() + 30_000;
  while (seen.under_way > 0 || Date.now() - seen.at < QUIET) {
    if (Date.now() > end) throw new Error(`${seen.under_way} requests do not end`);
    await new Promise((done) => setTimeout(done, 10));
  }
}

/** Waits until nothing is being fetched and nothing is marked as loading. */
export async function settled(page) {
  await page.waitForSelector('main h2', { timeout: 30_000 });
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  await quiet(page);
  const busy = 'main [role=status].quiet, main [aria-busy=true], main[aria-busy=true]';
  await page.waitForFunction((still) => document.querySelector(still) === null, busy, { timeout: 30_000 });
}

export const where = (page) => page.locator('nav[aria-label=Steps] .where').textContent();
export const heading = (page) => page.locator('main h2').first().textContent();
/** The current hash of the page; the driver's copy may be a moment older. */
export const hash = (page) => page.evaluate(() => location.hash);
export const badges = (page) => page.$$eval('[data-difference]', (all) => all.map((one) => Number(one.dataset.difference)));

/** Presses Tab until this element has the focus. */
export async function byTab(page, selector) {
  for (let i = 0; i < 150; i++) {
    await page.keyboard.press('Tab');
    if (await page.locator(selector).evaluateAll((all) => all.includes(document.activeElement))) return;
  }
  throw new Error(`Tab does not reach ${selector}`);
}
