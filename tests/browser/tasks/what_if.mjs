// Tasks on the what-if screen.
import { address, at, axe, badges, byTab, given, hash, opened, settled } from '../kit.mjs';

/** What if, by keys alone: a word replaced; undone by its chip, by Back and by the button. */
export async function replaceWord() {
  const page = await opened({ hash: given.hash });
  const seen = async () => ({
    bar: (await page.locator('#side-target + .tokens').innerText()).replace(/\s+/g, ' ').trim(),
    before: await page.locator('[data-before]').textContent(),
    after: (await page.locator('[data-after]').count()) > 0 ? await page.locator('[data-after]').textContent() : null,
    chips: await page.$$eval('.chip span', (all) => all.map((one) => one.textContent)),
    w: new URLSearchParams(new URL(page.url()).hash.slice(1)).get('w'),
    focus: await page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.id ?? ''),
  });
  const change = async () => {
    await byTab(page, 'label:has-text("Word") select');
    await page.keyboard.type(given.old);
    await page.keyboard.press('Tab');
    await page.keyboard.type(given.new);
    await page.keyboard.press('Enter');
    await page.waitForSelector('[data-after]');
    await settled(page);
  };
  const found = { first: await seen() };
  await change();
  found.changed = await seen();
  found.words = await page.$$eval('[data-changed] li', (all) => all.map((one) => [...one.querySelectorAll('bdi')].map((word) => word.textContent)));
  found.deltas = await page.$$eval('[data-deltas] tbody tr', (all) => all.map((row) => [...row.children].map((cell) => cell.textContent.trim())));
  found.sum = await page.locator('[data-sum]').textContent();
  found.next = await page.$$eval('[data-next-tokens] tbody tr', (all) => all.map((row) => [row.dataset.id, ...[...row.children].map((cell) => cell.textContent.trim())]));
  await byTab(page, '.chip button');
  await page.keyboard.press('Enter');
  await settled(page);
  found.chip = await seen();
  await change();
  await page.goBack();
  await settled(page);
  found.back = await seen();
  await page.goForward();
  await page.waitForSelector('[data-after]');
  await settled(page);
  found.forth = await seen();
  await byTab(page, 'button:has-text("Undo all")');
  await page.keyboard.press('Enter');
  await settled(page);
  found.button = await seen();
  return found;
}

/** Every form with its initial values, submitted by Enter: the changes in the URL. */
export async function forms() {
  const page = await opened({ hash: given.hash });
  const found = {};
  await byTab(page, 'input[type=radio]');
  for (let i = 0; i < given.count; i++) {
    const name = await page.evaluate(() => document.activeElement.parentElement.textContent.trim());
    const fields = await page.$$eval('.fields select', (all) => all.map((one) => one.selectedOptions[0]?.textContent ?? ''));
    if (await page.locator('.fields input[type=text]').count()) await page.locator('.fields input[type=text]').fill(given.text);
    await page.getByRole('button', { name: 'Apply this change' }).press('Enter');
    await settled(page);
    const w = new URLSearchParams(new URL(page.url()).hash.slice(1)).get('w') ?? '[]';
    found[name] = { fields, changes: JSON.parse(w), error: await page.locator('main [role=alert]').allTextContents() };
    await page.getByRole('button', { name: 'Undo all' }).click();
    await settled(page);
    await page.locator('input[type=radio]:checked').focus();
    await page.keyboard.press('ArrowRight');
  }
  return found;
}

/** Views under changes: for each, the findings of axe, its width, its tables and texts. */
export async function under() {
  const page = await opened({ ...given.look, hash: given.hashes[0] });
  const seen = [];
  for (const hash of given.hashes) {
    await page.goto('about:blank');
    await page.goto(`${address}/${hash}`);
    await settled(page);
    await page.waitForSelector('[aria-label="What to show"] button:not(:disabled)');
    await settled(page);
    if (hash.includes('v=whatif')) {
      await page.getByRole('button', { name: 'Rank all heads' }).click();
      await page.waitForSelector('[data-ranked]');
    }
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
    seen.push({
      hash,
      violations: violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`),
      beyond: await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth),
      badges: await badges(page),
      note: await page.locator('[data-note]').allTextContents(),
      table: await page.$$eval('[data-token-difference] tbody tr', (all) => all.map((row) => [...row.children].map((cell) => cell.textContent.trim()))),
      changed: await page.$$eval('[data-vectors] tbody tr', (all) => all.map((row) => [row.dataset.tensor, ...[...row.children].slice(2).map((cell) => cell.textContent.trim())])),
      finished: await page.$$eval('[data-finished] tbody tr', (all) => all.map((row) => [...row.children].map((cell) => cell.textContent.trim()))),
      words: await page.$$eval('[data-changed] li', (all) => all.map((one) => [...one.querySelectorAll('bdi')].map((word) => word.textContent))),
      says: await page.locator('[data-says]').allTextContents(),
      moved: await page.$$eval('[data-moved]', (all) => all.map((one) => Number(one.dataset.moved))),
      heads: await page.$$eval('[data-head]', (all) => all.map((one) => [one.dataset.head, one.textContent])),
    });
  }
  return seen;
}

/** Removes a head of the ranked grid by keys; then opens a URL with a change that the model does not support. */
export async function ranked() {
  const page = await opened({ hash: given.hash });
  await page.getByRole('button', { name: 'Rank all heads' }).click();
  await page.waitForSelector('[data-ranked]');
  await byTab(page, '[data-head]');
  for (const key of ['End', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
  await page.waitForSelector('[data-after]');
  await settled(page);
  const w = () => new URLSearchParams(new URL(page.url()).hash.slice(1)).get('w');
  const found = { removed: w(), focus: await page.evaluate(() => document.activeElement.dataset.head) };
  await page.keyboard.press('Enter');
  await settled(page);
  found.again = w();
  await page.goto('about:blank');
  await page.goto(`${address}/${given.invalid}`);
  found.error = await page.locator('section [role=alert]').textContent();
  found.alive = await page.locator('[data-before]').textContent();
  return found;
}
