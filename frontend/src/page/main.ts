import { mount } from 'svelte';
import App from './App.svelte';
import { serverHost } from './data/host';
import { adoptTheme } from './theme/theme.svelte';
import './theme/page.css';

adoptTheme(document);
mount(App, { target: document.getElementById('page') as HTMLElement, props: { host: serverHost() } });
