// Keyboard: arrows reach every cell of a grid and never leave it; letters are ignored in text fields.
import { describe, expect, it } from 'vitest';
import { gridAction, isTyping, nextCell, pageAction } from '../../src/page/state/keyboard';

const ARROWS = ['ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight', 'Home', 'End'];

describe('a grid', () => {
  it.each([
    [1, 1],
    [3, 5],
    [4, 2],
  ])('of %i × %i can be navigated completely, and is never left', (rows, cols) => {
    const seen = new Set(['0,0']);
    const waiting = [{ row: 0, col: 0 }];
    for (let cell = waiting.pop(); cell !== undefined; cell = waiting.pop()) {
      for (const key of ARROWS) {
        for (const ctrl of [false, true]) {
          const next = nextCell(key, ctrl, cell, rows, cols);
          if (next === null) throw new Error(key);
          expect(next.row >= 0 && next.row < rows && next.col >= 0 && next.col < cols).toBe(true);
          if (!seen.has(`${next.row},${next.col}`)) waiting.push(next);
          seen.add(`${next.row},${next.col}`);
        }
      }
    }
    expect(seen.size).toBe(rows * cols);
  });

  it('ignores other keys', () => {
    expect(nextCell('a', false, { row: 0, col: 0 }, 2, 2)).toBeNull();
    expect(gridAction('Tab')).toBeNull();
    expect(gridAction(']')).toBe('head after');
    expect(gridAction('PageUp')).toBe('layer up');
  });
});

describe('letters', () => {
  const key = (key: string, more = {}) => ({ key, ctrlKey: false, altKey: false, metaKey: false, ...more });
  it('are shortcuts, except while typing or with Ctrl', () => {
    expect(pageAction(key('n'), false)).toBe('next');
    expect(pageAction(key('p'), false)).toBe('previous');
    expect(pageAction(key('n'), true)).toBeNull();
    expect(pageAction(key('n', { ctrlKey: true }), false)).toBeNull();
    expect(pageAction(key('x'), false)).toBeNull();
  });

  it('are text in text fields', () => {
    expect(isTyping({ tagName: 'TEXTAREA' } as unknown as EventTarget)).toBe(true);
    expect(isTyping({ tagName: 'DIV' } as unknown as EventTarget)).toBe(false);
    expect(isTyping(null)).toBe(false);
  });
});
