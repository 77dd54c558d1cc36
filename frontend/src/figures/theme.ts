// Colour themes. Roles keep the hues of the Illustrated Transformer; text has a contrast of at least 6:1.

export type Role = 'x' | 'q' | 'k' | 'v' | 'z' | 'memory' | 'none';

export interface Ink {
  /** Text on the background. */
  text: string;
  /** Frames and filled labels. */
  fill: string;
  /** Text on the fill. */
  onFill: string;
}

export interface Theme {
  name: 'light' | 'dark';
  /** Background. */
  ground: string;
  text: string;
  quiet: string;
  faint: string;
  /** Background of weight matrices. */
  mat: string;
  accent: string;
  roles: Record<Role, Ink>;
  /** Signed values, from the most negative over 0 to the most positive. */
  diverging: string[];
  /** Probabilities, from 0 upwards. */
  sequential: string[];
}

const PUOR = [
  '#7f3b08',
  '#b35806',
  '#e08214',
  '#fdb863',
  '#fee0b6',
  '#f7f7f7',
  '#d8daeb',
  '#b2abd2',
  '#8073ac',
  '#542788',
  '#2d004b',
];
/** The same two hues around a dark centre. */
const PUOR_DARK = [
  '#ffe3b8',
  '#ffcb85',
  '#f0a548',
  '#b8741f',
  '#6b4718',
  '#23262c',
  '#3d3768',
  '#6557a3',
  '#9384d1',
  '#bcb0ef',
  '#e4dcff',
];
const CIVIDIS = [
  '#00204c',
  '#00306f',
  '#31446b',
  '#575c6d',
  '#737475',
  '#8f8b76',
  '#aca472',
  '#cabc67',
  '#ead752',
  '#ffe945',
];

export const LIGHT: Theme = {
  name: 'light',
  ground: '#ffffff',
  text: '#1b1e23',
  quiet: '#555b66',
  faint: '#c3c7ce',
  mat: '#e4e6ea',
  accent: '#a3330b',
  roles: {
    x: { text: '#00684b', fill: '#009e73', onFill: '#000000' },
    q: { text: '#7b2d8e', fill: '#a05cb5', onFill: '#ffffff' },
    k: { text: '#8a5200', fill: '#e69f00', onFill: '#000000' },
    v: { text: '#005b8f', fill: '#0072b2', onFill: '#ffffff' },
    z: { text: '#a3330b', fill: '#d55e00', onFill: '#000000' },
    memory: { text: '#3b4a9b', fill: '#5b6bc0', onFill: '#ffffff' },
    none: { text: '#1b1e23', fill: '#8a909b', onFill: '#000000' },
  },
  diverging: PUOR,
  sequential: CIVIDIS,
};

export const DARK: Theme = {
  name: 'dark',
  ground: '#14161a',
  text: '#e9ebee',
  quiet: '#aab0ba',
  faint: '#454b55',
  mat: '#363b44',
  accent: '#ff9468',
  roles: {
    x: { text: '#4fd1a5', fill: '#009e73', onFill: '#000000' },
    q: { text: '#d79be6', fill: '#a05cb5', onFill: '#000000' },
    k: { text: '#f0b44a', fill: '#e69f00', onFill: '#000000' },
    v: { text: '#6fc0f2', fill: '#3d9bd9', onFill: '#000000' },
    z: { text: '#ff9468', fill: '#d55e00', onFill: '#000000' },
    memory: { text: '#a9b4ff', fill: '#7384e0', onFill: '#000000' },
    none: { text: '#e9ebee', fill: '#7b818c', onFill: '#000000' },
  },
  diverging: PUOR_DARK,
  sequential: CIVIDIS,
};
