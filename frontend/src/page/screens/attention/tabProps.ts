// Props of every tab of the attention screen.
import type { ScreenProps } from '../props';
import type { AttentionTensors } from './attentionTensors';

export interface TabProps extends Pick<ScreenProps, 'exploration' | 'selection' | 'go' | 'move' | 'other'> {
  tensors: AttentionTensors;
  /** The tensors before the changes, if the difference is shown and can be computed. */
  before: AttentionTensors | null;
}
