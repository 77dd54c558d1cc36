// Every screen by its name. A new one is a component, a line here, and its steps in walk.ts.
import type { Component } from 'svelte';
import { texts } from '../strings';
import Attention from './attention/Attention.svelte';
import Beam from './beam/Beam.svelte';
import Ends from './beam/Ends.svelte';
import Bridge from './bridge/Bridge.svelte';
import Change from './change/Change.svelte';
import Film from './film/Film.svelte';
import type { ScreenProps } from './props';
import Both from './sentence/Both.svelte';
import Sentence from './sentence/Sentence.svelte';
import Softmax from './softmax/Softmax.svelte';
import Sublayers from './sublayers/Sublayers.svelte';
import Tokens from './tokens/Tokens.svelte';
import WhatIf from './whatif/WhatIf.svelte';
import Who from './who/Who.svelte';

export interface Screen {
  id: string;
  letter: string;
  title: string;
  component: Component<ScreenProps>;
  /** What shows B − A where that is wanted; without it B is shown. */
  difference?: Component<ScreenProps>;
}

export const SCREENS: Screen[] = [
  { id: 'sentence', letter: 'A', title: texts.screen.sentence.title, component: Sentence, difference: Both },
  { id: 'tokens', letter: 'B', title: texts.screen.tokens.title, component: Tokens, difference: Change },
  { id: 'attention', letter: 'C', title: texts.screen.attention.title, component: Attention, difference: Attention },
  { id: 'sublayers', letter: 'D', title: texts.screen.sublayers.title, component: Sublayers, difference: Change },
  { id: 'bridge', letter: 'E', title: texts.screen.bridge.title, component: Bridge, difference: Change },
  { id: 'film', letter: 'F', title: texts.screen.film.title, component: Film, difference: Change },
  { id: 'softmax', letter: 'G', title: texts.screen.softmax.title, component: Softmax, difference: Softmax },
  { id: 'beam', letter: 'H', title: texts.screen.beam.title, component: Beam, difference: Ends },
  { id: 'whatif', letter: 'I', title: texts.screen.whatif.title, component: WhatIf, difference: WhatIf },
  { id: 'who', letter: 'J', title: texts.screen.who.title('it'), component: Who },
];

export function screenOf(id: string): Screen {
  return SCREENS.find((screen) => screen.id === id) ?? (SCREENS[0] as Screen);
}
