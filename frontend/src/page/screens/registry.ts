// List of the screens. A new one needs a component, a line here, and its steps in tour.ts.
import type { Component } from 'svelte';
import { texts } from '../strings';
import Attention from './attention/Attention.svelte';
import Beam from './beam/Beam.svelte';
import FinishedDifference from './beam/FinishedDifference.svelte';
import Memory from './memory/Memory.svelte';
import VectorDifference from './difference/VectorDifference.svelte';
import Decoding from './decoding/Decoding.svelte';
import type { ScreenProps } from './props';
import SentenceDifference from './sentence/SentenceDifference.svelte';
import Sentence from './sentence/Sentence.svelte';
import Softmax from './softmax/Softmax.svelte';
import Sublayers from './sublayers/Sublayers.svelte';
import Tokens from './tokens/Tokens.svelte';
import WhatIf from './whatif/WhatIf.svelte';
import Pronoun from './pronoun/Pronoun.svelte';

export interface Screen {
  id: string;
  letter: string;
  title: string;
  component: Component<ScreenProps>;
  /** The component for B − A; without one, B is shown. */
  difference?: Component<ScreenProps>;
}

export const SCREENS: Screen[] = [
  {
    id: 'sentence',
    letter: 'A',
    title: texts.screen.sentence.title,
    component: Sentence,
    difference: SentenceDifference,
  },
  { id: 'tokens', letter: 'B', title: texts.screen.tokens.title, component: Tokens, difference: VectorDifference },
  { id: 'attention', letter: 'C', title: texts.screen.attention.title, component: Attention, difference: Attention },
  {
    id: 'sublayers',
    letter: 'D',
    title: texts.screen.sublayers.title,
    component: Sublayers,
    difference: VectorDifference,
  },
  { id: 'memory', letter: 'E', title: texts.screen.memory.title, component: Memory, difference: VectorDifference },
  {
    id: 'decoding',
    letter: 'F',
    title: texts.screen.decoding.title,
    component: Decoding,
    difference: VectorDifference,
  },
  { id: 'softmax', letter: 'G', title: texts.screen.softmax.title, component: Softmax, difference: Softmax },
  { id: 'beam', letter: 'H', title: texts.screen.beam.title, component: Beam, difference: FinishedDifference },
  { id: 'whatif', letter: 'I', title: texts.screen.whatif.title, component: WhatIf, difference: WhatIf },
  { id: 'pronoun', letter: 'J', title: texts.screen.pronoun.title, component: Pronoun },
];

export function screenOf(id: string): Screen {
  return SCREENS.find((screen) => screen.id === id) ?? (SCREENS[0] as Screen);
}
