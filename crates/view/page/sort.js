// The worker of the drawing in the browser.
import { sorter } from '/assets/splats.js';

sorter();
