// SVG document of a figure: title, drawing, legend, caption, and a description for screen readers.
import { MARGIN, POINTS_PER_MM, type Canvas, type Drawing } from './canvas';
import { legend } from './legend';
import { escape, number, tag, translated } from './svg';
import { FONT_FAMILY, FONT_SIZE, LINE_HEIGHT, prose, wrap } from './text';

const TITLE_SIZE = 10;

export function descriptionOf(drawing: Drawing, canvas: Canvas): string {
  return [...drawing.description, ...canvas.captionNotes()].join(' ');
}

export function svgDocument(drawing: Drawing, canvas: Canvas): string {
  const { theme } = canvas;
  const description = descriptionOf(drawing, canvas);
  const title = wrap(drawing.title, canvas.width / 1.12, TITLE_SIZE);
  let y = 0;
  let body = '';
  for (const line of title) {
    y += TITLE_SIZE + 2;
    body += prose(0, y - 3, line, { fill: theme.text, size: TITLE_SIZE, bold: true });
  }
  y += 5;
  body += translated(0, y, drawing.body);
  y += drawing.height;
  const { body: legendBody, height: legendHeight } = legend(canvas);
  if (legendHeight > 0) {
    y += 8;
    body += translated(0, y, legendBody);
    y += legendHeight;
  }
  if (canvas.caption) {
    y += 3;
    for (const line of wrap(description, canvas.width)) {
      y += LINE_HEIGHT;
      body += prose(0, y - 2.5, line, { fill: theme.quiet });
    }
  }
  return svgRoot(canvas, y + 2 * MARGIN, drawing.title, description, body);
}

function svgRoot(canvas: Canvas, height: number, title: string, description: string, body: string): string {
  const width = canvas.width + 2 * MARGIN;
  const { theme } = canvas;
  return (
    tag(
      'svg',
      {
        xmlns: 'http://www.w3.org/2000/svg',
        width: `${number(canvas.millimetres)}mm`,
        height: `${number(height / POINTS_PER_MM)}mm`,
        viewBox: `0 0 ${number(width)} ${number(height)}`,
        'font-family': FONT_FAMILY,
        'font-size': FONT_SIZE,
        role: 'img',
        'aria-labelledby': `title-${canvas.id} desc-${canvas.id}`,
      },
      `\n<title id="title-${canvas.id}">${escape(title)}</title>`,
      `\n<desc id="desc-${canvas.id}">${escape(description)}</desc>\n`,
      canvas.hatches ? `${hatching(canvas)}\n` : '',
      tag('rect', { width, height, fill: theme.ground }),
      `\n${translated(MARGIN, MARGIN, body).replace(/<(?=text|g |image)/g, '\n<')}\n`,
    ) + '\n'
  );
}

/** Thin diagonal lines, unlike any colour of a scale. */
function hatching(canvas: Canvas): string {
  const { theme } = canvas;
  const lines = tag('path', { d: 'M-1 1L1 -1M0 4L4 0M3 5L5 3', stroke: theme.quiet, 'stroke-width': 0.6 });
  const background = tag('rect', { width: 4, height: 4, fill: theme.ground });
  return tag(
    'defs',
    {},
    tag('pattern', { id: canvas.hatch, width: 4, height: 4, patternUnits: 'userSpaceOnUse' }, background, lines),
  );
}
