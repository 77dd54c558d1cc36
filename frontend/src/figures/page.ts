// The SVG file: title, picture, legend, caption, and a text description for screen readers.
import { legend } from './legend';
import { MARGIN, POINTS_PER_MM, type Drawing, type Sheet } from './sheet';
import { escape, moved, number, tag } from './svg';
import { FONT, LINE, prose, SIZE, wrap } from './text';

const TITLE = 10;

export function descriptionOf(drawing: Drawing, sheet: Sheet): string {
  return [...drawing.description, ...sheet.remarks()].join(' ');
}

export function page(drawing: Drawing, sheet: Sheet): string {
  const { theme } = sheet;
  const description = descriptionOf(drawing, sheet);
  const title = wrap(drawing.title, sheet.width / 1.12, TITLE);
  let y = 0;
  let body = '';
  for (const line of title) {
    y += TITLE + 2;
    body += prose(0, y - 3, line, { fill: theme.text, size: TITLE, bold: true });
  }
  y += 5;
  body += moved(0, y, drawing.body);
  y += drawing.height;
  const key = legend(sheet);
  if (key.height > 0) {
    y += 8;
    body += moved(0, y, key.body);
    y += key.height;
  }
  if (sheet.caption) {
    y += 3;
    for (const line of wrap(description, sheet.width)) {
      y += LINE;
      body += prose(0, y - 2.5, line, { fill: theme.quiet });
    }
  }
  return file(sheet, y + 2 * MARGIN, drawing.title, description, body);
}

function file(sheet: Sheet, height: number, title: string, description: string, body: string): string {
  const width = sheet.width + 2 * MARGIN;
  const { theme } = sheet;
  return (
    tag(
      'svg',
      {
        xmlns: 'http://www.w3.org/2000/svg',
        width: `${number(sheet.millimetres)}mm`,
        height: `${number(height / POINTS_PER_MM)}mm`,
        viewBox: `0 0 ${number(width)} ${number(height)}`,
        'font-family': FONT,
        'font-size': SIZE,
        role: 'img',
        'aria-labelledby': `title-${sheet.key} desc-${sheet.key}`,
      },
      `\n<title id="title-${sheet.key}">${escape(title)}</title>`,
      `\n<desc id="desc-${sheet.key}">${escape(description)}</desc>\n`,
      sheet.hatches ? `${hatching(sheet)}\n` : '',
      tag('rect', { width, height, fill: theme.ground }),
      `\n${moved(MARGIN, MARGIN, body).replace(/<(?=text|g |image)/g, '\n<')}\n`,
    ) + '\n'
  );
}

/** Thin lines to the upper right: no colour of any scale. */
function hatching(sheet: Sheet): string {
  const { theme } = sheet;
  const lines = tag('path', { d: 'M-1 1L1 -1M0 4L4 0M3 5L5 3', stroke: theme.quiet, 'stroke-width': 0.6 });
  const ground = tag('rect', { width: 4, height: 4, fill: theme.ground });
  return tag(
    'defs',
    {},
    tag('pattern', { id: sheet.hatch, width: 4, height: 4, patternUnits: 'userSpaceOnUse' }, ground, lines),
  );
}
