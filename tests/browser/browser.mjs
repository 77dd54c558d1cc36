// Drives the page in a real Chromium and says in JSON what it saw. Python starts the server and judges.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

const { address, frontend, chromium: executablePath, task, given } = JSON.parse(process.argv[2]);
const require = createRequire(`${frontend}/package.json`);
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const sandbox = process.getuid() === 0 ? ['--no-sandbox'] : [];
const browser = await chromium.launch({
  executablePath,
  args: ['--disable-dev-shm-usage', '--font-render-hinting=none', '--force-color-profile=srgb', ...sandbox],
});
const troubles = []; // requests to elsewhere, errors of the page

async function opened({ scheme = 'light', width = 1280, hash = '', forced = 'none' } = {}) {
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
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && troubles.push(message.text()));
  page.on('pageerror', (error) => troubles.push(error.message));
  await page.goto(`${address}/${hash}`);
  await settled(page);
  return page;
}

/** Until nothing is being fetched and nothing says that it is read. */
async function settled(page) {
  await page.waitForSelector('main h2', { timeout: 30_000 });
  await page.waitForLoadState('networkidle');
  const busy = 'main [role=status].quiet, main [aria-busy=true], main[aria-busy=true]';
  await page.waitForFunction((still) => document.querySelector(still) === null, busy, { timeout: 30_000 });
}

const where = (page) => page.locator('nav[aria-label=Steps] .where').textContent();
const heading = (page) => page.locator('main h2').first().textContent();
const badges = (page) => page.$$eval('[data-difference]', (all) => all.map((one) => Number(one.dataset.difference)));

const TASKS = {
  /** What tables say, at addresses that are given. */
  async read() {
    const page = await opened();
    const found = [];
    for (const { hash, rows } of given) {
      await page.goto('about:blank');
      await page.goto(`${address}/${hash}`);
      await settled(page);
      const table = await page.$$eval(`${rows} tr`, (all) => all.map((row) => [...row.children].map((cell) => cell.textContent.trim())));
      found.push({ table, badges: await badges(page), heading: await heading(page) });
    }
    return found;
  },

  /** Step by step by keys alone; of each what axe says, and what the badges say. */
  async walk() {
    const page = await opened(given);
    const seen = [];
    for (let step = 0; step < 40; step++) {
      await settled(page);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
      seen.push({
        where: await where(page),
        heading: await heading(page),
        badges: await badges(page),
        violations: violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(' | ')}`),
        beyond: await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth),
        focus: await page.evaluate(() => document.activeElement?.id ?? ''),
      });
      const before = page.url();
      await page.keyboard.press('n');
      if (page.url() === before) break;
    }
    return seen;
  },

  /** The grid by keys: to it by Tab, within it by arrows, out of it by Enter. */
  async grid() {
    const page = await opened({ hash: given.hash });
    const says = () => page.locator('[role=grid] ~ [role=status], .heatmap [role=status]').first().textContent();
    for (let i = 0; i < 120; i++) {
      await page.keyboard.press('Tab');
      if (await page.evaluate(() => document.activeElement?.getAttribute('role') === 'grid')) break;
    }
    const heard = { role: await page.evaluate(() => document.activeElement?.getAttribute('role')), start: await says() };
    for (const key of ['Home', 'ArrowRight', 'ArrowDown', ']', 'PageUp', 'End']) {
      await page.keyboard.press(key);
      await settled(page);
      heard[key] = await says();
      heard[`${key} at`] = new URL(page.url()).hash;
    }
    heard.focus = await page.evaluate(() => document.activeElement?.getAttribute('role'));
    await page.keyboard.press('Enter');
    await settled(page);
    heard.open = await page.locator('[aria-expanded=true]').count();
    return heard;
  },

  /** A link is a view: the same after a reload, and Back goes back. */
  async links() {
    const page = await opened({ hash: given.hash });
    const seen = async () => [await heading(page), await page.locator('[data-way] tbody').first().innerText(), new URL(page.url()).hash];
    const first = await seen();
    await page.reload();
    await settled(page);
    const again = await seen();
    await page.getByRole('tab', { name: 'Heads' }).click();
    const away = new URL(page.url()).hash;
    await page.goBack();
    await settled(page);
    return { first, again, away, back: await seen() };
  },

  /** Another sentence, by the form; words that change when matrices are others'. */
  async ask() {
    const page = await opened();
    await page.getByLabel('Sentence', { exact: true }).fill(given.text);
    await page.getByRole('button', { name: 'Look inside' }).click();
    await page.waitForFunction((text) => document.querySelector('[data-translation]')?.textContent === text, given.translation, { timeout: 30_000 });
    const hash = new URL(page.url()).hash;
    await page.goto(`${address}/#v=bridge`);
    await settled(page);
    await page.getByRole('button', { name: given.button }).click();
    const instead = await page.locator('[data-instead]').textContent();
    await page.goto(`${address}/#v=sentence&s=${encodeURIComponent('word '.repeat(400))}`);
    const error = await page.locator('[role=alert]').textContent();
    return { hash, instead, error };
  },

  /** How soon, how fast and how much, on a long sentence and a wide model. */
  async budget() {
    const page = await opened({ hash: given.hash, width: 1440 });
    const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity);
    const found = { paint, nodes: {}, redraw: {} };
    for (const [name, hash] of Object.entries(given.views)) {
      await page.evaluate((to) => (location.hash = to), hash);
      await settled(page);
      found.nodes[name] = await page.evaluate(() => document.querySelectorAll('*').length);
      // From the choice of another token until its styles and layout stand; the best of seven, as machines are shared.
      found.redraw[name] = await page.evaluate(async () => {
        const tokens = [...document.querySelectorAll('header button[aria-pressed]')];
        const chosen = tokens.findIndex((one) => one.ariaPressed === 'true');
        const times = [];
        for (let i = 1; i <= 7; i++) {
          const began = performance.now();
          tokens[chosen + i].click();
          await Promise.resolve();
          document.body.getBoundingClientRect(); // styles and layout, at once
          times.push(performance.now() - began);
          await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        }
        return Math.min(...times);
      });
    }
    return found;
  },

  /** What stands at selectors, at addresses that are given, after buttons were pressed and sliders moved. */
  async texts() {
    const page = await opened({ hash: given.views[0].hash });
    const found = [];
    for (const { hash, press = [], slide = {}, select } of given.views) {
      await page.goto('about:blank');
      await page.goto(`${address}/${hash}`);
      await settled(page);
      for (const selector of press) await page.locator(selector).first().click();
      for (const [name, value] of Object.entries(slide)) await page.getByLabel(name).fill(value);
      await settled(page);
      const seen = { badges: await badges(page), hash: new URL(page.url()).hash, heading: await heading(page) };
      for (const [name, selector] of Object.entries(select)) seen[name] = await page.$$eval(selector, (all) => all.map((one) => one.textContent.trim()));
      found.push(seen);
    }
    return found;
  },
};

try {
  const found = await TASKS[task]();
  console.log(JSON.stringify({ found, troubles }));
} finally {
  await browser.close();
}
