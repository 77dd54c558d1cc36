// Tasks on the explorer: tables and texts, the tour, the heatmap, links, budgets, pictures.
import { writeFileSync } from 'node:fs';
import { address, at, axe, badges, browser, given, hash, heading, noteTroubles, opened, settled, where } from '../kit.mjs';

/** Reads the tables at given URLs. */
export async function read() {
  const page = await opened({ hash: given[0].hash });
  const found = [];
  for (const { hash, rows } of given) {
    await page.goto('about:blank');
    await page.goto(at(hash));
    await settled(page);
    const table = await page.$$eval(`${rows} tr`, (all) => all.map((row) => [...row.children].map((cell) => cell.textContent.trim())));
    found.push({ table, badges: await badges(page), heading: await heading(page) });
  }
  return found;
}

/** Reads the texts at given selectors and URLs, after pressing buttons and moving sliders. */
export async function texts() {
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
}

/** Goes through the tour by keys alone; for each step, the findings of axe and the badges. */
export async function tour() {
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
    const before = await hash(page);
    await page.keyboard.press('n');
    if ((await hash(page)) === before) break;
  }
  return seen;
}

/** The heatmap by keys: Tab to reach it, arrows to move, Enter to open the computation. */
export async function grid() {
  const page = await opened({ hash: given.hash });
  const says = () => page.locator('[role=grid] ~ [role=status], .heatmap [role=status]').first().textContent();
  for (let i = 0; i < 120; i++) {
    await page.keyboard.press('Tab');
    if (await page.evaluate(() => document.activeElement?.getAttribute('role') === 'grid')) break;
  }
  const found = { role: await page.evaluate(() => document.activeElement?.getAttribute('role')), start: await says() };
  for (const key of ['Home', 'ArrowRight', 'ArrowDown', ']', 'PageUp', 'End']) {
    await page.keyboard.press(key);
    await settled(page);
    found[key] = await says();
    found[`${key} at`] = await hash(page);
  }
  found.focus = await page.evaluate(() => document.activeElement?.getAttribute('role'));
  await page.keyboard.press('Enter');
  await settled(page);
  found.open = await page.locator('[aria-expanded=true]').count();
  return found;
}

/** A link opens the same view: after a reload, and after Back. */
export async function links() {
  const page = await opened({ hash: given.hash });
  const seen = async () => [await heading(page), await page.locator('[data-query-steps] tbody').first().innerText(), await hash(page)];
  const first = await seen();
  await page.reload();
  await settled(page);
  const again = await seen();
  await page.getByRole('tab', { name: 'Heads' }).click();
  const away = await hash(page);
  await page.goBack();
  await settled(page);
  return { first, again, away, back: await seen() };
}

/** Translates another sentence with the form; then with other matrices; then a sentence that is too long. */
export async function translate() {
  const page = await opened();
  await page.getByLabel('Sentence', { exact: true }).fill(given.text);
  await page.getByRole('button', { name: 'Run the model' }).click();
  await page.waitForFunction((text) => document.querySelector('[data-translation]')?.textContent === text, given.translation, { timeout: 30_000 });
  const sentence = await hash(page);
  await page.goto(`${address}/#v=memory`);
  await settled(page);
  await page.getByRole('button', { name: given.button }).click();
  const otherMatrices = await page.locator('[data-other-matrices]').textContent();
  await page.goto(`${address}/#v=sentence&s=${encodeURIComponent('word '.repeat(400))}`);
  const error = await page.locator('[role=alert]').textContent();
  return { hash: sentence, otherMatrices, error };
}

/** The titles of the steps, and their URLs. */
export async function steps() {
  const page = await opened(given);
  const seen = [];
  for (let step = 0; step < 40; step++) {
    const title = await page.locator('nav[aria-label=Steps] option:checked').textContent();
    seen.push({ title: title.replace(/^\d+ · /, ''), hash: await hash(page) });
    await page.keyboard.press('n');
    if ((await hash(page)) === seen[step].hash) break;
    await settled(page);
  }
  return seen;
}

/** Takes a picture of each view, in full height. */
export async function pictures() {
  const sizes = [];
  for (const { hash, scheme, width, path } of given) {
    const page = await opened({ hash, scheme, width });
    await page.evaluate(() => document.activeElement?.blur());
    // As tall as its content, so that fixed bars are at the end of the picture and not in the middle.
    const height = await page.evaluate(() => document.documentElement.scrollHeight);
    await page.setViewportSize({ width, height: Math.min(height, 4000) });
    await settled(page);
    const session = await page.context().newCDPSession(page); // it can write WebP, at a third of the size of PNG
    const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: 80 });
    writeFileSync(path, Buffer.from(data, 'base64'));
    sizes.push({ path, height });
    await page.context().close();
  }
  return sizes;
}

/** First paint, redraw time and number of nodes, for a long sentence and a wide model. */
export async function budget() {
  const page = await opened({ hash: given.hash, width: 1440 });
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity);
  const found = { paint, nodes: {}, redraw: {} };
  for (const [name, hash] of Object.entries(given.views)) {
    await page.evaluate((to) => (location.hash = to), hash);
    await settled(page);
    found.nodes[name] = await page.evaluate(() => document.querySelectorAll('*').length);
    // From selecting another token until styles and layout are done; the best of seven, as machines are shared.
    found.redraw[name] = await page.evaluate(async () => {
      const tokens = [...document.querySelectorAll('header button[aria-pressed]')];
      const chosen = tokens.findIndex((one) => one.ariaPressed === 'true');
      const times = [];
      for (let i = 1; i <= 7; i++) {
        const began = performance.now();
        tokens[chosen + i].click();
        await Promise.resolve();
        document.body.getBoundingClientRect(); // forces styles and layout
        times.push(performance.now() - began);
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      }
      return Math.min(...times);
    });
  }
  return found;
}

/** Opens views one by one; for each, the findings of axe and its width. */
export async function barriers() {
  const seen = [];
  for (const hash of given.hashes) {
    const page = await opened({ ...given.look, hash });
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
    seen.push({
      hash,
      violations: violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(' | ')}`),
      beyond: await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth),
      nodes: await page.evaluate(() => document.querySelectorAll('*').length),
      text: await page.locator('main').innerText(),
    });
    await page.context().close();
  }
  return seen;
}

/** The forms of /docs: sends some of them, and returns what they show. */
export async function docs() {
  const context = await browser.newContext({ locale: 'en-GB' });
  const page = await context.newPage();
  noteTroubles(page);
  await page.goto(`${address}/docs`);
  await page.locator('#key').fill(given.key);
  const shown = {};
  for (const [path, values] of given.forms) {
    const form = page.locator(`form[data-path="${path}"]`);
    for (const [name, value] of Object.entries(values)) await form.locator(`input[name="${name}"]`).fill(value);
    await form.getByRole('button').click();
    await form.locator('output', { hasText: ' ms' }).waitFor({ timeout: 60_000 });
    shown[path] = await form.locator('output').textContent();
  }
  return shown;
}
