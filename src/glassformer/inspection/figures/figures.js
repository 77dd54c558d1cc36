var glassformerFigures = (function(exports) {
	Object.defineProperty(exports, Symbol.toStringTag, { value: "Module" });
	// src/figures/theme.ts
	var PUOR = [
		"#7f3b08",
		"#b35806",
		"#e08214",
		"#fdb863",
		"#fee0b6",
		"#f7f7f7",
		"#d8daeb",
		"#b2abd2",
		"#8073ac",
		"#542788",
		"#2d004b"
	];
	/** The same two hues around a dark centre. */
	var PUOR_DARK = [
		"#ffe3b8",
		"#ffcb85",
		"#f0a548",
		"#b8741f",
		"#6b4718",
		"#23262c",
		"#3d3768",
		"#6557a3",
		"#9384d1",
		"#bcb0ef",
		"#e4dcff"
	];
	var CIVIDIS = [
		"#00204c",
		"#00306f",
		"#31446b",
		"#575c6d",
		"#737475",
		"#8f8b76",
		"#aca472",
		"#cabc67",
		"#ead752",
		"#ffe945"
	];
	var LIGHT = {
		name: "light",
		ground: "#ffffff",
		text: "#1b1e23",
		quiet: "#555b66",
		faint: "#c3c7ce",
		mat: "#e4e6ea",
		accent: "#a3330b",
		roles: {
			x: {
				text: "#00684b",
				fill: "#009e73",
				onFill: "#000000"
			},
			q: {
				text: "#7b2d8e",
				fill: "#a05cb5",
				onFill: "#ffffff"
			},
			k: {
				text: "#8a5200",
				fill: "#e69f00",
				onFill: "#000000"
			},
			v: {
				text: "#005b8f",
				fill: "#0072b2",
				onFill: "#ffffff"
			},
			z: {
				text: "#a3330b",
				fill: "#d55e00",
				onFill: "#000000"
			},
			memory: {
				text: "#3b4a9b",
				fill: "#5b6bc0",
				onFill: "#ffffff"
			},
			none: {
				text: "#1b1e23",
				fill: "#8a909b",
				onFill: "#000000"
			}
		},
		diverging: PUOR,
		sequential: CIVIDIS
	};
	var DARK = {
		name: "dark",
		ground: "#14161a",
		text: "#e9ebee",
		quiet: "#aab0ba",
		faint: "#454b55",
		mat: "#363b44",
		accent: "#ff9468",
		roles: {
			x: {
				text: "#4fd1a5",
				fill: "#009e73",
				onFill: "#000000"
			},
			q: {
				text: "#d79be6",
				fill: "#a05cb5",
				onFill: "#000000"
			},
			k: {
				text: "#f0b44a",
				fill: "#e69f00",
				onFill: "#000000"
			},
			v: {
				text: "#6fc0f2",
				fill: "#3d9bd9",
				onFill: "#000000"
			},
			z: {
				text: "#ff9468",
				fill: "#d55e00",
				onFill: "#000000"
			},
			memory: {
				text: "#a9b4ff",
				fill: "#7384e0",
				onFill: "#000000"
			},
			none: {
				text: "#e9ebee",
				fill: "#7b818c",
				onFill: "#000000"
			}
		},
		diverging: PUOR_DARK,
		sequential: CIVIDIS
	};
	// src/figures/canvas.ts
	/** The unit is a point, 1/72 inch: font size 8 is 8 pt if the figure is printed at its own size. */
	var POINTS_PER_MM = 72 / 25.4;
	var Canvas = class {
		constructor(options, asImages, id) {
			this.asImages = asImages;
			this.id = id;
			this.cells = 0;
			this.signed = false;
			this.limits = false;
			this.weights = false;
			this.activations = false;
			this.masked = false;
			this.hatches = false;
			this.missing = false;
			this.probability = null;
			this.notes = [];
			this.legendItems = [];
			this.bins = /* @__PURE__ */ new Map();
			this.theme = options.dark ? DARK : LIGHT;
			this.millimetres = options.width ?? 178;
			this.width = this.millimetres * POINTS_PER_MM - 16;
			this.caption = options.caption ?? true;
		}
		get narrow() {
			return this.millimetres < 120;
		}
		/** Id of the hatching pattern. */
		get hatch() {
			return `hatch-${this.id}`;
		}
		/** Adds a sentence to the caption, once. */
		note(sentence) {
			if (!this.notes.includes(sentence)) this.notes.push(sentence);
		}
		/** Records for the caption that rows or columns are drawn in bins. */
		noteBins(count, axis, perBin) {
			const sizes = this.bins.get(`${count} ${axis}`) ?? [];
			if (!sizes.includes(perBin)) this.bins.set(`${count} ${axis}`, [...sizes, perBin].sort((a, b) => a - b));
		}
		/** The sentences of the caption after the view's own description. */
		captionNotes() {
			const binned = [...this.bins].map(([axis, sizes]) => `${axis}, ${sizes.join(" or ")} per bin`);
			const bins = binned.length > 0 ? [`Each bin shows a mean: ${binned.join("; ")}.`] : [];
			const scale = this.limits ? ["± is the limit of the colour scale; 99.5 % of the values are within it."] : [];
			return [
				...this.notes,
				...bins,
				...scale
			];
		}
	};
	// src/figures/svg.ts
	/** A coordinate: at most two decimals, never -0. */
	function number(x) {
		const rounded = Math.round(x * 100) / 100;
		return String(rounded === 0 ? 0 : rounded);
	}
	/** Escapes text for XML; characters that XML 1.0 forbids, such as lone surrogates, become U+FFFD. */
	function escape(text) {
		return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "�").replace(/[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]/g, (match) => match.length === 2 ? match : "�").replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
	}
	function tag(name, attributes, ...children) {
		const written = Object.keys(attributes).sort().filter((key) => attributes[key] !== void 0).map((key) => {
			const value = attributes[key];
			return ` ${key}="${typeof value === "number" ? number(value) : escape(value)}"`;
		}).join("");
		return children.length === 0 ? `<${name}${written}/>` : `<${name}${written}>${children.join("")}</${name}>`;
	}
	function line(x1, y1, x2, y2, stroke, width = .75) {
		return tag("line", {
			x1,
			y1,
			x2,
			y2,
			stroke,
			"stroke-width": width
		});
	}
	function translated(x, y, ...children) {
		return tag("g", { transform: `translate(${number(x)} ${number(y)})` }, ...children);
	}
	// src/figures/textWidth.ts
	var ASCII_WIDTHS = [
		32,
		40,
		46,
		84,
		64,
		95,
		78,
		27,
		39,
		39,
		50,
		84,
		32,
		36,
		32,
		34,
		64,
		64,
		64,
		64,
		64,
		64,
		64,
		64,
		64,
		64,
		34,
		34,
		84,
		84,
		84,
		53,
		100,
		68,
		69,
		70,
		77,
		63,
		58,
		77,
		75,
		29,
		29,
		66,
		56,
		86,
		75,
		79,
		60,
		79,
		69,
		63,
		61,
		73,
		68,
		99,
		69,
		61,
		69,
		39,
		34,
		39,
		84,
		50,
		50,
		61,
		63,
		55,
		63,
		62,
		35,
		63,
		63,
		28,
		28,
		58,
		28,
		97,
		63,
		61,
		63,
		63,
		41,
		52,
		39,
		63,
		59,
		82,
		59,
		59,
		52,
		64,
		34,
		64,
		84
	];
	var BOLD_FACTOR = 1.12;
	var DEFAULT_WIDTH = 64;
	/** First and last code point, width. The first matching range applies; other characters have DEFAULT_WIDTH. */
	var RANGE_WIDTHS = [
		[
			183,
			183,
			32
		],
		[
			215,
			215,
			84
		],
		[
			768,
			879,
			0
		],
		[
			880,
			1327,
			68
		],
		[
			1425,
			1469,
			0
		],
		[
			1470,
			1535,
			58
		],
		[
			1611,
			1631,
			0
		],
		[
			1536,
			1791,
			70
		],
		[
			2027,
			2035,
			0
		],
		[
			1984,
			2047,
			62
		],
		[
			2304,
			3583,
			80
		],
		[
			4352,
			4607,
			100
		],
		[
			7488,
			7488,
			40
		],
		[
			8203,
			8207,
			0
		],
		[
			8230,
			8230,
			100
		],
		[
			8294,
			8297,
			0
		],
		[
			8208,
			8304,
			60
		],
		[
			8592,
			8959,
			84
		],
		[
			11904,
			40959,
			100
		],
		[
			44032,
			55215,
			100
		],
		[
			63744,
			64255,
			100
		],
		[
			65024,
			65039,
			0
		],
		[
			65280,
			65519,
			100
		],
		[
			126976,
			129791,
			125
		],
		[
			131072,
			262143,
			100
		]
	];
	function characterWidth(code) {
		if (code >= 32 && code < 127) return ASCII_WIDTHS[code - 32];
		for (const [first, last, width] of RANGE_WIDTHS) if (code >= first && code <= last) return width;
		return DEFAULT_WIDTH;
	}
	/** The width of a text at a font size, in the unit of that size. */
	function textWidth(text, size, bold = false) {
		let hundredths = 0;
		for (const character of text) hundredths += characterWidth(character.codePointAt(0));
		return hundredths * size * (bold ? BOLD_FACTOR : 1) / 100;
	}
	var FONT_FAMILY = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Noto Sans', 'Liberation Sans', 'DejaVu Sans', sans-serif";
	/** Distance between baselines, in points. */
	var LINE_HEIGHT = 10.5;
	var RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
	function isRightToLeft(text) {
		return RIGHT_TO_LEFT.test(text);
	}
	/** A token within a sentence: right-to-left tokens are isolated, so that they do not reorder their neighbours. */
	function isolated(token) {
		return isRightToLeft(token) ? `\u2068${token}\u2069` : token;
	}
	/** A token for display: without the ▁ that marks the space before a word. */
	function tokenText(piece) {
		const bare = piece.replace(/^▁+/, "").replace(/▁/g, " ");
		return bare === "" ? "␣" : bare;
	}
	/** The text, or as much of it as fits, followed by …. Combining marks stay with their letters. */
	function truncate(text, width, size = 8, bold = false) {
		if (textWidth(text, size, bold) <= width) return text;
		const letters = text.match(/\P{M}\p{M}*|\p{M}+/gu) ?? [];
		let prefix = "";
		for (const letter of letters) {
			if (textWidth(`${prefix}${letter}…`, size, bold) > width) break;
			prefix += letter;
		}
		return `${prefix}…`;
	}
	/** Lines no wider than `width`; a wider word gets its own line and is truncated. */
	function wrap(text, width, size = 8) {
		const lines = [];
		let current = "";
		for (const word of text.split(" ")) {
			const longer = current === "" ? word : `${current} ${word}`;
			if (current !== "" && textWidth(longer, size) > width) {
				lines.push(truncate(current, width, size));
				current = word;
			} else current = longer;
		}
		return current === "" ? lines : [...lines, truncate(current, width, size)];
	}
	function element(x, y, style, content) {
		return tag("text", {
			x,
			y,
			fill: style.fill,
			"font-size": style.size === void 0 || style.size === 8 ? void 0 : style.size,
			"font-weight": style.bold ? "bold" : void 0,
			"paint-order": style.halo === void 0 ? void 0 : "stroke",
			stroke: style.halo,
			"stroke-width": style.halo === void 0 ? void 0 : 2.5,
			"text-anchor": style.anchor === void 0 || style.anchor === "start" ? void 0 : style.anchor,
			transform: style.rotate ? `rotate(${number(style.rotate)} ${number(x)} ${number(y)})` : void 0
		}, content);
	}
	function text(x, y, content, style) {
		return element(x, y, style, escape(content));
	}
	/** A sentence in which names such as W_Q get a subscript. */
	function prose(x, y, content, style) {
		const size = style.size ?? 8;
		const subscript = {
			dy: BASELINE_SHIFT.sub * size,
			"font-size": size * INDEX_SCALE
		};
		const back = -BASELINE_SHIFT.sub * size;
		let lowered = false;
		return element(x, y, style, content.split(/(\b[Wb]_[QKVO]\b)/u).map((part) => {
			const [letter, index] = /^[Wb]_[QKVO]$/u.test(part) ? part.split("_") : [part];
			const plain = letter === "" ? "" : lowered ? tag("tspan", { dy: back }, escape(letter)) : escape(letter);
			lowered = index !== void 0 || lowered && letter === "";
			return plain + (index === void 0 ? "" : tag("tspan", subscript, index));
		}).join(""));
	}
	/** Splits "W_K^{12} X" into runs: _ and ^ apply to the next character, or to what is in braces. */
	function runs(formula) {
		const list = [];
		for (const match of formula.matchAll(/([_^])(?:\{([^}]*)\}|(.))|([^_^]+)/gu)) if (match[4] !== void 0) list.push({
			level: "plain",
			text: match[4]
		});
		else list.push({
			level: match[1] === "_" ? "sub" : "super",
			text: match[2] ?? match[3] ?? ""
		});
		return list;
	}
	var INDEX_SCALE = .72;
	var BASELINE_SHIFT = {
		plain: 0,
		sub: .22,
		super: -.38
	};
	/** A formula with subscripts and superscripts: `formula(x, y, "W_K^1", ...)`. */
	function formula(x, y, content, style) {
		const size = style.size ?? 8;
		let current = 0;
		return element(x, y, style, runs(content).map((run) => {
			const shift = BASELINE_SHIFT[run.level] * size;
			const dy = shift - current;
			current = shift;
			return tag("tspan", {
				dy: dy === 0 ? void 0 : dy,
				"font-size": run.level === "plain" ? void 0 : size * INDEX_SCALE
			}, escape(run.text));
		}).join(""));
	}
	function formulaWidth(content, size = 8, bold = false) {
		return runs(content).reduce((sum, run) => sum + textWidth(run.text, run.level === "plain" ? size : size * INDEX_SCALE, bold), 0);
	}
	// src/figures/formatting.ts
	/** Two decimals (none from 100, two significant digits below 0.01) without trailing zeros: 0.31, 2.1, 123. */
	function decimal(x) {
		const magnitude = Math.abs(x);
		const digits = magnitude >= 100 ? x.toFixed(0) : magnitude >= .01 || magnitude === 0 ? x.toFixed(2) : x.toPrecision(2);
		return digits.includes(".") && !digits.includes("e") ? digits.replace(/0+$/, "").replace(/\.$/, "") : digits;
	}
	/** A probability: two decimals, more near 0 and 1. */
	function probability(p) {
		if (p >= .9995) return p >= 1 ? "1.000" : "> 0.999";
		if (p < 5e-5) return p === 0 ? "0" : "< 0.0001";
		return p.toFixed(p < .01 ? 4 : p < .1 || p > .995 ? 3 : 2);
	}
	/** A token within a sentence; one without letters is quoted, to set it apart from the sentence's own punctuation. */
	function quoted(piece) {
		const token = tokenText(piece);
		return isolated(/\p{L}/u.test(token) ? token : `“${token}”`);
	}
	function attentionName(place) {
		const kind = place.stack === "encoder" || place.kind === "self" ? "self-attention" : "cross-attention";
		return `${place.stack} layer ${place.layer}, ${kind}`;
	}
	function capitalised(sentence) {
		return sentence.charAt(0).toUpperCase() + sentence.slice(1);
	}
	function plural(count, word, many = `${word}s`) {
		return `${count} ${count === 1 ? word : many}`;
	}
	/** A position within a sentence: by its token; in the target, by its input token and the one it predicts. */
	function positionPhrase(token) {
		if (token.after === void 0) return quoted(token.text);
		return `after ${quoted(token.after)}, predicting ${quoted(token.text)},`;
	}
	/** The name of a key position; in the target, its input token. */
	function keyName(token) {
		return quoted(token.after ?? token.text);
	}
	/** The keys with the largest weights of a row: "animal 0.31, The 0.12 and tired 0.1". */
	function strongestKeys(weights, row, keys, count = 3) {
		const values = weights.values.slice(row * weights.cols, (row + 1) * weights.cols);
		const order = values.map((_, index) => index).filter((index) => values[index] !== null);
		order.sort((a, b) => values[b] - values[a] || a - b);
		const phrases = order.slice(0, count).filter((index, rank) => rank === 0 || values[index] >= .005).map((index) => `${keyName(keys[index])} ${probability(values[index])}`);
		return phrases.length < 2 ? phrases.join("") : `${phrases.slice(0, -1).join(", ")} and ${phrases[phrases.length - 1]}`;
	}
	/** The keys that a query position attends to most: "it attends most to animal 0.31, The 0.12 and tired 0.1". */
	function attendsMostTo(query, weights, row, keys) {
		return `${query.after === void 0 ? positionPhrase(query) : `the position ${positionPhrase(query)}`} attends most to ${strongestKeys(weights, row, keys)}`;
	}
	/** Caption notes for every figure of one attention. */
	function attentionNotes(data) {
		const notes = ["Layers and heads are counted from 0."];
		if (data.rotated) notes.push("Q and K are shown after the rotary position encoding.");
		return notes;
	}
	function rgb(hex) {
		return [
			1,
			3,
			5
		].map((start) => parseInt(hex.slice(start, start + 2), 16));
	}
	function hex(colour) {
		return `#${colour.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
	}
	/** The colour at `t`, from 0 to 1, of a table of colours, linearly interpolated. */
	function interpolated(table, t) {
		const position = Math.max(0, Math.min(1, t)) * (table.length - 1);
		const index = Math.min(Math.floor(position), table.length - 2);
		const low = rgb(table[index]);
		const high = rgb(table[index + 1]);
		return low.map((part, i) => Math.round(part + (high[i] - part) * (position - index)));
	}
	/** All colours of a scale; the middle one of a signed scale is that of 0. */
	function palette(scale, theme) {
		const table = scale.kind === "signed" ? theme.diverging : theme.sequential;
		return Array.from({ length: 255 }, (_, index) => interpolated(table, index / 254));
	}
	/** Index of a value's colour in the palette. */
	function paletteIndex(value, scale) {
		if (scale.limit === 0) return scale.kind === "signed" ? 127 : 0;
		const t = scale.kind === "signed" ? (value / scale.limit + 1) / 2 : value / scale.limit;
		return Math.round(Math.max(0, Math.min(1, t)) * 254);
	}
	function colour(value, scale, theme) {
		return hex(interpolated(scale.kind === "signed" ? theme.diverging : theme.sequential, paletteIndex(value, scale) / 254));
	}
	/** Black or white, whichever has more contrast on a colour. */
	function readableOn(background) {
		const [r, g, b] = rgb(background);
		return .299 * r + .587 * g + .114 * b > 140 ? "#000000" : "#ffffff";
	}
	/** The limit is the 99.5th percentile of |x|, rounded up to two digits, so that outliers do not wash out the rest. */
	function signedScale(matrices) {
		const magnitudes = sortedMagnitudes(matrices);
		return {
			kind: "signed",
			limit: roundedUp(magnitudes[Math.ceil(.995 * (magnitudes.length - 1))] ?? 0)
		};
	}
	var PROBABILITY_LIMITS = [
		.02,
		.05,
		.1,
		.2,
		.5,
		1
	];
	/** From 0 to the first round number that at most 0.5 % of the values exceed. */
	function probabilityScale(matrices) {
		const magnitudes = sortedMagnitudes(matrices);
		const quantile = magnitudes[Math.floor(.995 * (magnitudes.length - 1))] ?? 1;
		const limit = PROBABILITY_LIMITS.find((bound) => quantile <= bound) ?? 1;
		return {
			kind: "probability",
			limit,
			clipped: (magnitudes[magnitudes.length - 1] ?? 0) > limit
		};
	}
	function sortedMagnitudes(matrices) {
		const magnitudes = [];
		for (const matrix of matrices) for (const value of matrix.values) if (value !== null) magnitudes.push(Math.abs(value));
		return magnitudes.sort((a, b) => a - b);
	}
	/** Rounded up to two significant digits; without `Math.log10`, which differs between engines. */
	function roundedUp(x) {
		if (!(x > 0)) return 0;
		let unit = 1;
		while (unit * 100 <= x) unit *= 10;
		while (unit * 10 > x && unit > 1e-12) unit /= 10;
		return Number((Math.ceil(x / unit - 1e-9) * unit).toPrecision(2));
	}
	// src/figures/legend.ts
	var BAR_WIDTH = 54;
	var SHADES = 36;
	var ENTRY_GAP = 14;
	var ROW_HEIGHT$2 = 14;
	/** The entries in as many rows as they need. */
	function legend(canvas) {
		let [x, y] = [0, 0];
		let body = "";
		for (const entry of entries(canvas)) {
			if (x > 0 && x + entry.width > canvas.width) [x, y] = [0, y + ROW_HEIGHT$2];
			body += entry.draw(x, y);
			x += entry.width + ENTRY_GAP;
		}
		return {
			body,
			height: body === "" ? 0 : y + ROW_HEIGHT$2
		};
	}
	function entries(canvas) {
		const list = [];
		if (canvas.signed) list.push(colourBar(canvas, {
			kind: "signed",
			limit: 1
		}, "−", "+", "value: negative, 0, positive"));
		if (canvas.probability !== null) list.push(colourBar(canvas, canvas.probability, "0", `${canvas.probability.clipped ? "≥ " : ""}${decimal(canvas.probability.limit)}`, "attention weight"));
		const { theme } = canvas;
		if (canvas.activations) list.push(swatch(canvas, "activation", { fill: theme.roles.none.fill }));
		if (canvas.weights) list.push(swatch(canvas, "weight matrix", {
			fill: theme.mat,
			stroke: theme.roles.none.fill,
			"stroke-width": 1.1
		}));
		if (canvas.masked) list.push(swatch(canvas, "masked", {
			fill: `url(#${canvas.hatch})`,
			stroke: theme.faint,
			"stroke-width": .5
		}));
		if (canvas.missing) {
			const dashed = {
				fill: theme.mat,
				stroke: theme.quiet,
				"stroke-dasharray": "3 2",
				"stroke-width": 1
			};
			list.push(swatch(canvas, "numbers not saved with this trace", dashed));
		}
		return [...list, ...canvas.legendItems.map((item) => swatch(canvas, item.meaning, item.style))];
	}
	function colourBar(canvas, scale, low, high, meaning) {
		const style = { fill: canvas.theme.quiet };
		const lowWidth = textWidth(low, 8) + 3;
		const highWidth = textWidth(high, 8) + 6;
		const colours = palette(scale, canvas.theme);
		return {
			width: lowWidth + BAR_WIDTH + 3 + highWidth + textWidth(meaning, 8),
			draw: (x, y) => {
				const strips = Array.from({ length: SHADES }, (_, i) => {
					const fill = `rgb(${(colours[Math.round(i / 35 * (colours.length - 1))] ?? [
						0,
						0,
						0
					]).map(number).join(",")})`;
					return tag("rect", {
						x: x + lowWidth + i * BAR_WIDTH / SHADES,
						y,
						width: 1.7,
						height: 8,
						fill
					});
				});
				return text(x, y + 7, low, style) + tag("g", { "shape-rendering": "crispEdges" }, ...strips) + text(x + lowWidth + BAR_WIDTH + 3, y + 7, high, style) + text(x + lowWidth + BAR_WIDTH + 3 + highWidth, y + 7, meaning, style);
			}
		};
	}
	function swatch(canvas, meaning, style) {
		return {
			width: 16 + textWidth(meaning, 8),
			draw: (x, y) => tag("rect", {
				x: x + .5,
				y,
				width: 11,
				height: 8,
				rx: 1.5,
				...style
			}) + text(x + 16, y + 7, meaning, { fill: canvas.theme.quiet })
		};
	}
	// src/figures/svgDocument.ts
	var TITLE_SIZE = 10;
	function descriptionOf(drawing, canvas) {
		return [...drawing.description, ...canvas.captionNotes()].join(" ");
	}
	function svgDocument(drawing, canvas) {
		const { theme } = canvas;
		const description = descriptionOf(drawing, canvas);
		const title = wrap(drawing.title, canvas.width / 1.12, TITLE_SIZE);
		let y = 0;
		let body = "";
		for (const line of title) {
			y += 12;
			body += prose(0, y - 3, line, {
				fill: theme.text,
				size: TITLE_SIZE,
				bold: true
			});
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
		return svgRoot(canvas, y + 16, drawing.title, description, body);
	}
	function svgRoot(canvas, height, title, description, body) {
		const width = canvas.width + 16;
		const { theme } = canvas;
		return tag("svg", {
			xmlns: "http://www.w3.org/2000/svg",
			width: `${number(canvas.millimetres)}mm`,
			height: `${number(height / POINTS_PER_MM)}mm`,
			viewBox: `0 0 ${number(width)} ${number(height)}`,
			"font-family": FONT_FAMILY,
			"font-size": 8,
			role: "img",
			"aria-labelledby": `title-${canvas.id} desc-${canvas.id}`
		}, `\n<title id="title-${canvas.id}">${escape(title)}</title>`, `\n<desc id="desc-${canvas.id}">${escape(description)}</desc>\n`, canvas.hatches ? `${hatching(canvas)}\n` : "", tag("rect", {
			width,
			height,
			fill: theme.ground
		}), `\n${translated(8, 8, body).replace(/<(?=text|g |image)/g, "\n<")}\n`) + "\n";
	}
	/** Thin diagonal lines, unlike any colour of a scale. */
	function hatching(canvas) {
		const { theme } = canvas;
		const lines = tag("path", {
			d: "M-1 1L1 -1M0 4L4 0M3 5L5 3",
			stroke: theme.quiet,
			"stroke-width": .6
		});
		const background = tag("rect", {
			width: 4,
			height: 4,
			fill: theme.ground
		});
		return tag("defs", {}, tag("pattern", {
			id: canvas.hatch,
			width: 4,
			height: 4,
			patternUnits: "userSpaceOnUse"
		}, background, lines));
	}
	// src/figures/png.ts
	var SIGNATURE = [
		137,
		80,
		78,
		71,
		13,
		10,
		26,
		10
	];
	var MAX_BLOCK_BYTES = 65535;
	var CRC_TABLE = Array.from({ length: 256 }, (_, n) => {
		let c = n;
		for (let bit = 0; bit < 8; bit++) c = c & 1 ? 3988292384 ^ c >>> 1 : c >>> 1;
		return c >>> 0;
	});
	function crc(bytes) {
		let c = 4294967295;
		for (const byte of bytes) c = CRC_TABLE[(c ^ byte) & 255] ^ c >>> 8;
		return (c ^ 4294967295) >>> 0;
	}
	function adler(bytes) {
		let a = 1;
		let b = 0;
		for (const byte of bytes) {
			a = (a + byte) % 65521;
			b = (b + a) % 65521;
		}
		return (b << 16 | a) >>> 0;
	}
	function bigEndian(x) {
		return [
			x >>> 24 & 255,
			x >>> 16 & 255,
			x >>> 8 & 255,
			x & 255
		];
	}
	function chunk(name, body) {
		const named = [...name].map((letter) => letter.charCodeAt(0)).concat(body);
		return bigEndian(body.length).concat(named, bigEndian(crc(named)));
	}
	/** zlib format with uncompressed (stored) blocks. */
	function zlibStored(bytes) {
		const blocks = [120, 1];
		for (let start = 0; start < bytes.length || start === 0; start += MAX_BLOCK_BYTES) {
			const block = bytes.slice(start, start + MAX_BLOCK_BYTES);
			const last = start + MAX_BLOCK_BYTES >= bytes.length ? 1 : 0;
			blocks.push(last, block.length & 255, block.length >> 8, ~block.length & 255, ~block.length >> 8 & 255);
			for (const byte of block) blocks.push(byte);
		}
		return blocks.concat(bigEndian(adler(bytes)));
	}
	/** Cells row by row, each an index into `colours`; the colour `transparent` is not drawn. */
	function png(width, height, cells, colours, transparent) {
		const scanlines = [];
		for (let row = 0; row < height; row++) {
			scanlines.push(0);
			for (let col = 0; col < width; col++) scanlines.push(cells[row * width + col]);
		}
		const colourTable = [];
		for (const colour of colours) colourTable.push(...colour);
		const opacity = colours.map((_, index) => index === transparent ? 0 : 255);
		return SIGNATURE.concat(chunk("IHDR", [
			...bigEndian(width),
			...bigEndian(height),
			8,
			3,
			0,
			0,
			0
		]), chunk("PLTE", colourTable), chunk("tRNS", opacity), chunk("IDAT", zlibStored(scanlines)), chunk("IEND", []));
	}
	var BASE64_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	function base64(bytes) {
		let encoded = "";
		for (let i = 0; i < bytes.length; i += 3) {
			const [a, b, c] = [
				bytes[i],
				bytes[i + 1],
				bytes[i + 2]
			];
			const bits = a << 16 | (b ?? 0) << 8 | (c ?? 0);
			encoded += BASE64_ALPHABET.charAt(bits >> 18) + BASE64_ALPHABET.charAt(bits >> 12 & 63);
			encoded += b === void 0 ? "=" : BASE64_ALPHABET.charAt(bits >> 6 & 63);
			encoded += c === void 0 ? "=" : BASE64_ALPHABET.charAt(bits & 63);
		}
		return encoded;
	}
	// src/figures/cells.ts
	/** Minimum width of a cell, in points; narrower ones are combined into bins. */
	var MIN_CELL_WIDTH = 1.2;
	/** The means of bins of `perRow` × `perCol` cells. */
	function binned(matrix, perRow, perCol) {
		if (perRow === 1 && perCol === 1) return matrix;
		const rows = Math.ceil(matrix.rows / perRow);
		const cols = Math.ceil(matrix.cols / perCol);
		const values = [];
		for (let row = 0; row < rows; row++) for (let col = 0; col < cols; col++) values.push(meanOf(matrix, row * perRow, col * perCol, perRow, perCol));
		return {
			rows,
			cols,
			values
		};
	}
	function meanOf(matrix, top, left, perRow, perCol) {
		let sum = 0;
		let count = 0;
		for (let row = top; row < Math.min(top + perRow, matrix.rows); row++) for (let col = left; col < Math.min(left + perCol, matrix.cols); col++) {
			const value = matrix.values[row * matrix.cols + col];
			if (value === null || value === void 0) continue;
			sum += value;
			count += 1;
		}
		return count === 0 ? null : sum / count;
	}
	/** A matrix in bins that are large enough to be seen at this size; the caption mentions them. */
	function fitted(canvas, given, width, height, minWidth = MIN_CELL_WIDTH) {
		const matrix = asStored(given);
		const perCol = binSize(matrix.cols, matrix.cols * minWidth / width);
		const perRow = binSize(matrix.rows, matrix.rows * minWidth * .5 / height);
		const [cols, rows] = [perCol * (given.perCol ?? 1), perRow * (given.perRow ?? 1)];
		if (cols > 1) canvas.noteBins(given.cols, "columns", cols);
		if (rows > 1) canvas.noteBins(given.rows, "rows", rows);
		return binned(matrix, perRow, perCol);
	}
	/** Size of a bin: at least `minimum`, and up to 1.6 times that if the last bin is then not smaller than the others. */
	function binSize(count, minimum) {
		const needed = Math.max(1, Math.ceil(minimum - 1e-9));
		for (let size = needed; size <= needed * 1.6; size++) if (count % size === 0) return size;
		return needed;
	}
	/** The matrix with the shape of its stored values, which may already be means of bins. */
	function asStored(matrix) {
		const [rows, cols] = [Math.ceil(matrix.rows / (matrix.perRow ?? 1)), Math.ceil(matrix.cols / (matrix.perCol ?? 1))];
		return {
			rows,
			cols,
			values: matrix.values
		};
	}
	/** Draws the cells of a matrix in a box; masked cells are hatched. */
	function cells(canvas, matrix, box, scale) {
		canvas.cells += matrix.values.length;
		if (scale.kind === "signed") canvas.signed = true;
		else canvas.probability = scale;
		return (canvas.asImages ? image(canvas, matrix, box, scale) : rectangles(canvas, matrix, box, scale)) + hatched(canvas, matrix, box);
	}
	/** One path per colour: a third of the bytes of separate rectangles. */
	function rectangles(canvas, matrix, box, scale) {
		if (canvas.cells > 2500) return "";
		const width = box.width / matrix.cols;
		const height = box.height / matrix.rows;
		const size = `h${number(width)}v${number(height)}h${number(-width)}z`;
		const paths = /* @__PURE__ */ new Map();
		matrix.values.forEach((value, index) => {
			if (value === null) return;
			const fill = colour(value, scale, canvas.theme);
			const x = number(box.x + index % matrix.cols * width);
			const y = number(box.y + Math.floor(index / matrix.cols) * height);
			paths.set(fill, `${paths.get(fill) ?? ""}M${x} ${y}${size}`);
		});
		return tag("g", { "shape-rendering": "crispEdges" }, ...[...paths].map(([fill, d]) => tag("path", {
			d,
			fill
		})));
	}
	function image(canvas, matrix, box, scale) {
		const colours = palette(scale, canvas.theme);
		const indices = /* @__PURE__ */ new Map();
		const used = [[
			0,
			0,
			0
		]];
		const bytes = matrix.values.map((value) => {
			if (value === null) return 0;
			const shade = paletteIndex(value, scale);
			if (!indices.has(shade)) {
				indices.set(shade, used.length);
				used.push(colours[shade]);
			}
			return indices.get(shade);
		});
		return tag("image", {
			...box,
			href: `data:image/png;base64,${base64(png(matrix.cols, matrix.rows, bytes, used, 0))}`,
			"image-rendering": "optimizeSpeed",
			preserveAspectRatio: "none",
			style: "image-rendering:pixelated"
		});
	}
	/** Hatching over runs of masked cells, row by row. */
	function hatched(canvas, matrix, box) {
		const width = box.width / matrix.cols;
		const height = box.height / matrix.rows;
		let drawn = "";
		for (let row = 0; row < matrix.rows; row++) {
			let col = 0;
			while (col < matrix.cols) {
				const start = col;
				while (col < matrix.cols && matrix.values[row * matrix.cols + col] === null) col++;
				if (col > start) {
					const x = box.x + start * width;
					drawn += tag("rect", {
						x,
						y: box.y + row * height,
						width: (col - start) * width,
						height
					});
					canvas.masked = canvas.hatches = true;
				} else col++;
			}
		}
		return drawn === "" ? "" : tag("g", { fill: `url(#${canvas.hatch})` }, drawn);
	}
	// src/figures/labels.ts
	var MIN_ROW_PITCH = 8.8;
	var MIN_COLUMN_PITCH = 10.2;
	var ARROW_WIDTH = 10;
	var SLANT_SINE = .7071;
	/** Every how many positions a label fits, given their distance; above 40 tokens at least every second. */
	function labelStride(count, pitch, minPitch) {
		const fits = Math.max(1, Math.ceil(minPitch / pitch - 1e-6));
		return count > 40 ? Math.max(2, fits) : fits;
	}
	function widest(texts, maxWidth) {
		return Math.min(maxWidth, Math.max(0, ...texts.map((one) => textWidth(one, 8))));
	}
	/** Labels left of rows. Target positions have two columns: the input token and the token to predict. */
	var RowLabels = class {
		constructor(canvas, tokens, maxWidth = canvas.narrow ? 34 : 54) {
			this.canvas = canvas;
			this.tokens = tokens;
			const inputs = tokens.map((token) => token.after).filter((token) => token !== void 0);
			this.afterWidth = widest(inputs.map(tokenText), maxWidth);
			this.tokenWidth = widest(tokens.map((token) => tokenText(token.text)), maxWidth);
			this.width = this.tokenWidth + (this.afterWidth > 0 ? this.afterWidth + ARROW_WIDTH : 0) + 4;
		}
		/** Draws the labels of rows that begin at `y`, left of `right`. */
		draw(right, y, pitch, marked = null) {
			const stride = labelStride(this.tokens.length, pitch, MIN_ROW_PITCH);
			return this.tokens.map((token, row) => {
				const near = marked !== null && row !== marked && Math.abs(row - marked) * pitch < MIN_ROW_PITCH;
				if (row !== marked && (row % stride !== 0 || near)) return "";
				return this.label(token, right - 4, y + (row + .5) * pitch + 2.8, row === marked);
			}).join("");
		}
		/** The heading of the two columns of target labels, in the longest wording that fits. */
		heading(right, top, pitch) {
			const heading = ["input → prediction", "input → next"].find((words) => textWidth(words, 8) <= right - 4);
			if (this.afterWidth === 0 || heading === void 0) return "";
			const y = top - Math.max(4, 8.5 - pitch / 2);
			return text(right - 4, y, heading, {
				fill: this.canvas.theme.quiet,
				anchor: "end"
			});
		}
		label(token, right, y, bold) {
			const { theme } = this.canvas;
			const fill = bold ? theme.accent : theme.text;
			const label = truncate(tokenText(token.text), this.tokenWidth + .01, 8);
			if (token.after === void 0) return text(right, y, label, {
				fill,
				bold,
				anchor: "end"
			});
			const left = right - this.tokenWidth;
			return text(left - ARROW_WIDTH, y, truncate(tokenText(token.after), this.afterWidth + .01, 8), {
				fill: bold ? fill : theme.quiet,
				anchor: "end"
			}) + text(left - ARROW_WIDTH / 2, y, "→", {
				fill: theme.quiet,
				anchor: "middle"
			}) + text(left, y, label, {
				fill,
				bold
			});
		}
	};
	/** Slanted labels above columns. */
	var ColumnLabels = class {
		constructor(canvas, texts, maxWidth = 58) {
			this.canvas = canvas;
			this.texts = texts;
			this.labelWidth = widest(texts, maxWidth);
			this.height = this.labelWidth * SLANT_SINE + 8;
			this.overhang = this.labelWidth * SLANT_SINE + 2;
		}
		/** Draws the labels of columns that begin at `x`; `bottom` is the top of the matrix. */
		draw(x, bottom, pitch, marked = null) {
			const stride = labelStride(this.texts.length, pitch, MIN_COLUMN_PITCH);
			return this.texts.map((one, col) => {
				if (col % stride !== 0) return "";
				const fill = col === marked ? this.canvas.theme.accent : this.canvas.theme.text;
				const label = truncate(one, this.labelWidth + .01);
				return text(x + (col + .5) * pitch + 2, bottom - 3, label, {
					fill,
					rotate: -45
				});
			}).join("");
		}
	};
	/** Height of one row: `maxPitch`, or less if the rows would exceed `maxHeight` together. */
	function rowPitch(count, maxHeight, maxPitch = 9) {
		return Math.min(maxPitch, maxHeight / count);
	}
	// src/figures/views/attention.ts
	var MIN_PRINTED_WEIGHT = .05;
	var PANEL_GAP = 16;
	var HEADING_HEIGHT = 12;
	var MAX_DESCRIBED_HEADS = 4;
	function attention(given, canvas) {
		const data = inReadingOrder(given, canvas);
		const weights = data.weights ?? [];
		const chosen = data.head === null ? weights : [weights[data.head]];
		const scale = probabilityScale(chosen);
		for (const note of attentionNotes(data)) canvas.note(note);
		const panels = data.head === null ? allHeads(data, chosen, scale, canvas) : oneHead(data, chosen[0], scale, canvas);
		const name = capitalised(attentionName(data.place));
		return {
			title: data.head === null ? `${name}: attention weights of ${plural(chosen.length, "head")}` : `${name}, head ${data.head}: attention weights`,
			description: sentences$5(data, chosen),
			...panels
		};
	}
	/** Keys of a right-to-left script are drawn from right to left, as the text is read. */
	function inReadingOrder(data, canvas) {
		if (data.keys.filter((token) => isRightToLeft(token.after ?? token.text)).length * 2 <= data.keys.length) return data;
		canvas.note("The columns run from right to left, as the text does.");
		const weights = (data.weights ?? []).map(mirrored);
		return {
			...data,
			keys: [...data.keys].reverse(),
			weights
		};
	}
	function mirrored(matrix) {
		const values = [];
		for (let row = 0; row < matrix.rows; row++) values.push(...matrix.values.slice(row * matrix.cols, (row + 1) * matrix.cols).reverse());
		return {
			...matrix,
			values
		};
	}
	function sentences$5(data, chosen) {
		const rows = data.token === null ? sharpestRows(data, chosen) : [[0, data.token]];
		if (data.head !== null) {
			const [, row] = rows[0] ?? [0, 0];
			return [`Head ${data.head} of ${attentionName(data.place)}: ${attendsTo(data, chosen[0], row)}.`];
		}
		const phrases = chosen.map((matrix, head) => {
			return `head ${head}: ${attendsTo(data, matrix, data.token ?? sharpestRows(data, [matrix])[0]?.[1])}`;
		});
		const named = phrases.slice(0, MAX_DESCRIBED_HEADS);
		const rest = phrases.length - named.length;
		const more = rest > 0 ? `; and ${plural(rest, "more head")}` : "";
		return [`${capitalised(attentionName(data.place))}. ${capitalised(named.join("; "))}${more}.`];
	}
	function attendsTo(data, matrix, row) {
		return attendsMostTo(data.queries[row], matrix, row, data.keys);
	}
	/** For each head, the word with the largest weight on a single position other than its own. */
	function sharpestRows(data, chosen) {
		return chosen.map((matrix, head) => {
			let [largest, sharpest] = [-1, 0];
			matrix.values.forEach((value, index) => {
				const [row, col] = [Math.floor(index / matrix.cols), index % matrix.cols];
				const itself = data.place.kind === "self" && row === col;
				const isWord = /\p{L}/u.test(data.queries[row]?.text ?? "") && !/^<.+>$/.test(data.queries[row]?.text ?? "");
				if (value !== null && !itself && isWord && value > largest) [largest, sharpest] = [value, row];
			});
			return [head, sharpest];
		});
	}
	function oneHead(data, matrix, scale, canvas) {
		const rows = new RowLabels(canvas, data.queries, canvas.narrow ? 40 : 64);
		const columns = new ColumnLabels(canvas, data.keys.map((token) => tokenText(token.after ?? token.text)));
		const room = canvas.width - rows.width - columns.overhang;
		const pitch = Math.min(24, room / matrix.cols);
		const height = Math.min(pitch, 15);
		const rowHeight = matrix.rows > 30 ? Math.min(height, 560 / matrix.rows) : height;
		const top = columns.height + 2;
		const box = {
			x: rows.width,
			y: top,
			width: pitch * matrix.cols,
			height: rowHeight * matrix.rows
		};
		return {
			body: cells(canvas, fitted(canvas, matrix, box.width, box.height), box, scale) + frame$1(canvas, box) + (pitch >= 20 && rowHeight >= 9 ? numbers(matrix, box, scale, canvas) : "") + highlight(canvas, data.token, box, matrix.rows) + rows.draw(rows.width, top, rowHeight, data.token) + rows.heading(rows.width, top, rowHeight) + columns.draw(rows.width, top, pitch),
			height: top + box.height
		};
	}
	/** The larger weights as numbers, if the cells are large enough. */
	function numbers(matrix, box, scale, canvas) {
		canvas.note(`Weights of ${MIN_PRINTED_WEIGHT} or more are printed as numbers.`);
		const [width, height] = [box.width / matrix.cols, box.height / matrix.rows];
		return matrix.values.map((value, index) => {
			if (value === null || value < MIN_PRINTED_WEIGHT) return "";
			const x = box.x + (index % matrix.cols + .5) * width;
			const y = box.y + (Math.floor(index / matrix.cols) + .5) * height + 2.8;
			const fill = readableOn(colour(value, scale, canvas.theme));
			return text(x, y, value > .995 ? "1" : value.toFixed(2).slice(1), {
				fill,
				anchor: "middle"
			});
		}).join("");
	}
	function frame$1(canvas, box) {
		return tag("rect", {
			...box,
			fill: "none",
			stroke: canvas.theme.quiet,
			"stroke-width": .6
		});
	}
	/** A frame around the highlighted row. */
	function highlight(canvas, row, box, rows) {
		if (row === null) return "";
		const height = box.height / rows;
		return tag("rect", {
			x: box.x - 1,
			y: box.y + row * height - .6,
			width: box.width + 2,
			height: height + 1.2,
			fill: "none",
			stroke: canvas.theme.accent,
			"stroke-width": 1.4
		});
	}
	/** Panels per line: as many as leave space for every label; long sentences are drawn small. */
	function panelsPerLine(room, count, positions) {
		const fitting = Math.floor((room + PANEL_GAP) / (Math.max(40, positions * 9) + PANEL_GAP));
		return Math.min(count, Math.max(count <= 2 ? count : count <= 4 ? 2 : count <= 9 ? 3 : 4, Math.min(fitting, 6)));
	}
	function allHeads(data, panels, scale, canvas) {
		const rows = new RowLabels(canvas, data.queries, canvas.narrow ? 30 : 50);
		const columns = new ColumnLabels(canvas, data.keys.map((token) => tokenText(token.after ?? token.text)), 46);
		const room = canvas.width - rows.width - columns.overhang;
		const across = panelsPerLine(room, panels.length, data.keys.length);
		const width = Math.min(220, (room - (across - 1) * PANEL_GAP) / across);
		const pitch = width / data.keys.length;
		const rowHeight = Math.min(Math.max(pitch, 2), 12);
		const height = rowHeight * data.queries.length;
		let body = "";
		let y = 0;
		for (let first = 0; first < panels.length; first += across) {
			y += HEADING_HEIGHT + columns.height;
			body += rows.draw(rows.width, y, rowHeight, data.token) + rows.heading(rows.width, y, rowHeight);
			panels.slice(first, first + across).forEach((matrix, place) => {
				const box = {
					x: rows.width + place * (width + PANEL_GAP),
					y,
					width,
					height
				};
				body += text(box.x, y - columns.height - 2, `head ${first + place}`, {
					fill: canvas.theme.text,
					bold: true
				});
				body += cells(canvas, fitted(canvas, matrix, width, height), box, scale) + frame$1(canvas, box);
				body += highlight(canvas, data.token, box, matrix.rows) + columns.draw(box.x, y, pitch);
			});
			y += height + 8;
		}
		return {
			body,
			height: y - 8
		};
	}
	// src/figures/views/beam.ts
	var ROW_HEIGHT$1 = 15;
	var BOX_HEIGHT = 11;
	var MIN_STEP_WIDTH = 17;
	var LEFT_MARGIN = 22;
	var MAX_CAPTION_WORDS = 40;
	/** Dropped tokens with at least this probability are named; the others are counted. */
	var MIN_NAMED_PROBABILITY = .05;
	function beam(data, canvas) {
		const runs = layout(data);
		const retained = data.nodes.filter(isRetained).length;
		const dropped = data.nodes.length - 1 - retained;
		const { theme } = canvas;
		canvas.legendItems.push({
			meaning: "best",
			style: {
				fill: theme.ground,
				stroke: theme.accent,
				"stroke-width": 1.8
			}
		}, {
			meaning: "kept",
			style: {
				fill: theme.ground,
				stroke: theme.quiet,
				"stroke-width": .8
			}
		}, {
			meaning: "unfinished at the end",
			style: {
				fill: theme.ground,
				stroke: theme.quiet,
				"stroke-width": .8,
				"stroke-dasharray": "2 1.5"
			}
		});
		canvas.note("Double frame: finished, with rank and score.");
		canvas.note(`Grey text: dropped tokens with their probability; below ${MIN_NAMED_PROBABILITY} only counted (+n).`);
		return {
			title: `Beam search with beam size ${data.size}`,
			description: sentences$4(data, retained, dropped),
			...drawBands(data, runs, canvas)
		};
	}
	function sentences$4(data, retained, dropped) {
		const best = data.finished[0];
		const counts = `${plural(data.nodes.length - 1, "hypothesis", "hypotheses")} considered: ${retained} kept or finished, ${dropped} dropped.`;
		if (best === void 0) return [counts];
		const second = data.finished[1];
		const runnerUp = second === void 0 ? "" : ` (second: ${decimal(data.nodes[second].score)})`;
		return [
			counts,
			`Best of ${plural(data.finished.length, "finished hypothesis", "finished hypotheses")},`,
			`with score ${decimal(data.nodes[best].score)}${runnerUp}:`,
			`${firstWords(textOf(data, pathOf(data, best)))}.`
		];
	}
	/** At most MAX_CAPTION_WORDS words. */
	function firstWords(words) {
		const parts = words.split(" ");
		return parts.length <= MAX_CAPTION_WORDS ? words : `${parts.slice(0, MAX_CAPTION_WORDS).join(" ")} …`;
	}
	/** The nodes from the first token to this one. */
	function pathOf(data, node) {
		const path = [];
		for (let at = node; at > 0; at = data.nodes[at].parent) path.push(at);
		return path.reverse();
	}
	/** Whether a hypothesis was not dropped: it was extended, finished, or unfinished when the search ended. */
	function isRetained(node) {
		return node.fate === "kept" || node.fate === "finished" || node.fate === "abandoned";
	}
	/** Runs with their rows: the first child stays in its parent's row, the others go below; the best path comes first. */
	function layout(data, drawn = isRetained) {
		const children = data.nodes.map(() => []);
		data.nodes.forEach((node, number) => {
			if (node.parent >= 0 && drawn(node, number)) children[node.parent].push(number);
		});
		const best = new Set(data.finished[0] === void 0 ? [] : pathOf(data, data.finished[0]));
		const depth = [];
		data.nodes.forEach((node, number) => depth.push(number === 0 ? 0 : depth[node.parent] + 1));
		for (const list of children) list.sort((a, b) => Number(best.has(b)) - Number(best.has(a)) || a - b);
		const runs = [];
		let rows = 0;
		const stack = [];
		const first = children[0] ?? [];
		for (const node of [...first].reverse()) stack.push({
			node,
			parent: null,
			row: null
		});
		while (stack.length > 0) {
			const { node, parent, row } = stack.pop();
			const nodes = [node];
			let last = node;
			while (children[last].length === 1 && best.has(children[last][0]) === best.has(node) && isRetained(data.nodes[children[last][0]])) {
				last = children[last][0];
				nodes.push(last);
			}
			const runRow = row ?? rows++;
			const run = {
				nodes,
				from: depth[node],
				to: depth[last],
				parent,
				row: runRow,
				best: best.has(node)
			};
			runs.push(run);
			const next = children[last];
			for (let i = next.length - 1; i >= 0; i--) stack.push({
				node: next[i],
				parent: run,
				row: i === 0 ? runRow : null
			});
		}
		return runs;
	}
	/** Width of each step: first for boxes of up to two tokens, then for the longer ones of the best path. */
	function stepWidths(data, runs, deepest) {
		const widths = Array.from({ length: deepest + 1 }, () => MIN_STEP_WIDTH);
		const sized = runs.filter((run) => run.nodes.length <= 2 || run.best).sort((a, b) => a.nodes.length - b.nodes.length);
		for (const run of sized) {
			const needed = Math.min(textWidth(textOf(data, run.nodes), 8, run.best) + 11, 70 * run.nodes.length);
			const available = widths.slice(run.from, run.to + 1).reduce((sum, one) => sum + one, 0);
			const more = Math.max(0, needed - available) / run.nodes.length;
			for (let at = run.from; at <= run.to; at++) widths[at] = widths[at] + more;
		}
		return widths;
	}
	function textOf(data, nodes) {
		return nodes.map((node) => isolated(tokenText(data.nodes[node].text))).join(" ");
	}
	/** Splits the steps into bands; a band ends where a run of the best path ends, if possible. */
	function splitIntoBands(widths, runs, room) {
		const ends = new Set(runs.filter((run) => run.best).map((run) => run.to));
		const total = widths.slice(1).reduce((a, b) => a + b, 0);
		if (total > room && total <= room * 1.15) return splitIntoBands(widths.map((one) => one * room / total - 1e-6), runs, room);
		const bands = [];
		let start = 1;
		while (start < widths.length) {
			let end = start;
			let sum = widths[start];
			while (end + 1 < widths.length && sum + widths[end + 1] <= room) sum += widths[++end];
			const lastRunEnd = Array.from({ length: end - start }, (_, back) => end - back).find((at) => ends.has(at));
			if (end + 1 < widths.length && lastRunEnd !== void 0) end = lastRunEnd;
			sum = widths.slice(start, end + 1).reduce((a, b) => a + b, 0);
			const spare = end + 1 === widths.length && bands.length > 0 ? 0 : (room - sum) / (end - start + 1);
			const width = widths.slice(start, end + 1).map((one) => one + Math.max(0, spare));
			const x = width.map((_, place) => LEFT_MARGIN + width.slice(0, place).reduce((a, b) => a + b, 0));
			bands.push({
				start,
				end,
				x,
				width
			});
			start = end + 1;
		}
		return bands;
	}
	/** As many steps next to each other as fit; later ones in bands below. */
	function drawBands(data, runs, canvas) {
		const deepest = Math.max(1, ...runs.map((run) => run.to));
		const right = 46;
		let y = 0;
		let body = "";
		for (const band of splitIntoBands(stepWidths(data, runs, deepest), runs, canvas.width - LEFT_MARGIN - right)) {
			const inside = runs.filter((run) => run.to >= band.start && run.from <= band.end);
			const rows = [...new Set(inside.map((run) => run.row))].sort((a, b) => a - b);
			const places = new Map(rows.map((row, place) => [row, place]));
			y += 12;
			band.x.forEach((x, place) => {
				const middle = x + band.width[place] / 2;
				body += text(middle, y - 3, String(band.start + place - 1), {
					fill: canvas.theme.quiet,
					anchor: "middle"
				});
			});
			if (band.start === 1) body += text(0, y + 10.5, truncate(tokenText(data.nodes[0].text), 18), { fill: canvas.theme.quiet });
			const rowCentre = (row) => {
				const place = places.get(row);
				return place === void 0 ? void 0 : y + place * ROW_HEIGHT$1 + ROW_HEIGHT$1 / 2;
			};
			body += inside.map((run) => edge(run, band, rowCentre, canvas)).join("");
			body += inside.map((run) => box(data, run, band, rowCentre(run.row), canvas)).join("");
			y += rows.length * ROW_HEIGHT$1 + 8;
		}
		return {
			body,
			height: y - 8
		};
	}
	/** The edge from the parent run down to this one; a stub if the parent is in the band above. */
	function edge(run, band, rowCentre, canvas) {
		const style = {
			fill: "none",
			stroke: run.best ? canvas.theme.accent : canvas.theme.quiet,
			"stroke-width": run.best ? 2 : .8
		};
		const line = number(rowCentre(run.row));
		const x = band.x[Math.max(run.from, band.start) - band.start];
		const from = run.parent === null ? rowCentre(0) : rowCentre(run.parent.row);
		if (run.from < band.start || from === void 0) return tag("path", {
			...style,
			d: `M${number(x - 9)} ${line}H${number(x + 2)}`,
			"stroke-dasharray": "2 2"
		});
		return tag("path", {
			...style,
			d: `M${number(x - 3)} ${number(from)}V${line}H${number(x + 2)}`
		});
	}
	function box(data, run, band, line, canvas) {
		const { theme } = canvas;
		const [from, to] = [Math.max(run.from, band.start), Math.min(run.to, band.end)];
		const nodes = run.nodes.slice(from - run.from, to - run.from + 1);
		const x = band.x[from - band.start] + 2;
		const width = band.x[to - band.start] + band.width[to - band.start] - 5 - x;
		const last = data.nodes[nodes[nodes.length - 1]];
		const complete = to === run.to;
		const stroke = run.best ? theme.accent : theme.quiet;
		const frame = {
			x,
			y: line - BOX_HEIGHT / 2,
			width,
			height: BOX_HEIGHT,
			rx: 2.5,
			fill: theme.ground,
			stroke
		};
		const dashed = complete && last.fate === "abandoned" ? "2 1.5" : void 0;
		let body = tag("rect", {
			...frame,
			"stroke-width": run.best ? 1.4 : .7,
			"stroke-dasharray": dashed
		});
		if (complete && last.fate === "finished") {
			const inner = {
				x: x + 1.6,
				y: frame.y + 1.6,
				width: width - 3.2,
				height: 7.8,
				rx: 1.5
			};
			body += tag("rect", {
				...inner,
				fill: "none",
				stroke,
				"stroke-width": .5
			});
		}
		const label = textOf(data, nodes);
		const fill = run.best ? theme.accent : theme.text;
		body += text(x + width / 2, line + 2.9, truncate(label, width - 3, 8, run.best), {
			fill,
			bold: run.best,
			anchor: "middle"
		});
		return complete ? body + annotation(data, run, last, x + width + 4, line, canvas) : body;
	}
	/** Text after a run: rank and score if it is finished, else the tokens that were dropped there. */
	function annotation(data, run, last, x, line, canvas) {
		const room = Math.min(150, canvas.width - x);
		const node = run.nodes[run.nodes.length - 1];
		const fill = run.best ? canvas.theme.accent : canvas.theme.quiet;
		if (last.fate === "finished") {
			const label = `${ordinal(data.finished.indexOf(node) + 1)} ${decimal(last.score).replace("-", "−")}`;
			return text(x, line + 2.9, label, {
				fill,
				bold: run.best,
				halo: canvas.theme.ground
			});
		}
		if (data.nodes.some((other) => other.parent === node && isRetained(other))) return "";
		const dropped = data.nodes.filter((other) => other.parent === node && !isRetained(other));
		if (last.fate === "abandoned") return text(x, line + 2.9, truncate("unfinished", room), {
			fill,
			halo: canvas.theme.ground
		});
		const shownNames = dropped.filter((other) => other.probability >= MIN_NAMED_PROBABILITY).slice(0, 2).map((other) => `${isolated(tokenText(other.text))} ${probability(other.probability)}`);
		const rest = dropped.length - shownNames.length;
		const parts = [...shownNames, ...rest > 0 ? [`+${rest}`] : []];
		return text(x, line + 2.9, truncate(parts.join(", "), room), {
			fill: canvas.theme.quiet,
			halo: canvas.theme.ground
		});
	}
	function ordinal(rank) {
		return `${rank}${rank % 100 > 10 && rank % 100 < 14 ? "th" : {
			1: "st",
			2: "nd",
			3: "rd"
		}[rank % 10] ?? "th"}`;
	}
	// src/figures/matrix.ts
	function hasCells(matrix) {
		return matrix?.values !== void 0;
	}
	/** One scale for matrices that are compared: of those with saved numbers, in bins as they are drawn. */
	function commonScale(canvas, matrices, width, height) {
		return signedScale(matrices.filter(hasCells).map((one) => fitted(canvas, one, width, height)));
	}
	/** Draws a matrix with the text around it; `box` is that of its cells. */
	function drawMatrix(canvas, matrix, box, style) {
		const middle = box.x + box.width / 2;
		const sizes = style.sizes ?? "around";
		const away = 3;
		const quiet = {
			fill: canvas.theme.quiet,
			anchor: "middle"
		};
		const shape = `${matrix.rows} × ${matrix.cols}`;
		const around = (sizes === "around" ? text(middle, box.y - 3.5 - away, shape, quiet) : "") + matrixLabel(canvas, middle, box.y - away - (sizes === "around" ? 13.5 : 4), style);
		if (!hasCells(matrix)) {
			canvas.missing = true;
			return around + emptyFrame(canvas, box, style);
		}
		const drawn = fitted(canvas, matrix, box.width, box.height);
		const scale = style.scale ?? signedScale([drawn]);
		const limit = scale.kind === "signed" ? `±${decimal(scale.limit)}` : "";
		const below = {
			around: limit,
			below: [shape, limit].filter((part) => part !== "").join(", "),
			none: ""
		}[sizes];
		if (below.includes("±")) canvas.limits = true;
		return around + tag("g", style.pale ? { opacity: "0.4" } : {}, background(canvas, box, style), cells(canvas, drawn, box, scale)) + frame(canvas, box, style) + (below === "" ? "" : text(middle, box.y + box.height + 8.5 + away, below, quiet));
	}
	/** The grey background of weight matrices. */
	function background(canvas, box, style) {
		if (style.kind === "activation") {
			canvas.activations = true;
			return "";
		}
		canvas.weights = true;
		return tag("rect", {
			...expanded(box, 2.5),
			fill: canvas.theme.mat
		});
	}
	function frame(canvas, box, style) {
		const stroke = style.pale ? canvas.theme.quiet : canvas.theme.roles[style.role].fill;
		const around = style.kind === "weight" ? expanded(box, 2.5) : expanded(box, .4);
		const parts = style.parts ?? 1;
		let between = "";
		for (let part = 1; part < parts; part++) {
			const x = box.x + box.width * part / parts;
			between += line(x, box.y, x, box.y + box.height, stroke, .6);
		}
		return between + tag("rect", {
			...around,
			fill: "none",
			stroke,
			"stroke-width": style.kind === "weight" ? 1.1 : .8
		});
	}
	/** The frame of a matrix whose numbers were not saved. */
	function emptyFrame(canvas, box, style) {
		const stroke = canvas.theme.roles[style.role].fill;
		return tag("rect", {
			...expanded(box, 2.5),
			fill: canvas.theme.mat,
			stroke,
			"stroke-dasharray": "3 2",
			"stroke-width": 1.1
		});
	}
	function expanded(box, by) {
		return {
			x: box.x - by,
			y: box.y - by,
			width: box.width + 2 * by,
			height: box.height + 2 * by
		};
	}
	/** The label of a matrix: filled for activations, outlined for weights. `y` is the baseline of the text. */
	function matrixLabel(canvas, middle, y, style) {
		if (style.label === "") return "";
		const ink = canvas.theme.roles[style.role];
		const width = formulaWidth(style.label, 8, true) + 6;
		const box = {
			x: middle - width / 2,
			y: y - 7.8,
			width,
			height: 10.6,
			rx: 2
		};
		const filled = style.kind === "activation" && !style.pale;
		const stroke = style.pale ? canvas.theme.quiet : ink.fill;
		const background = filled ? tag("rect", {
			...box,
			fill: ink.fill
		}) : tag("rect", {
			...box,
			fill: canvas.theme.mat,
			stroke,
			"stroke-width": .8
		});
		const fill = filled ? ink.onFill : style.pale ? canvas.theme.quiet : ink.text;
		return background + formula(middle, y, style.label, {
			fill,
			bold: true,
			anchor: "middle"
		});
	}
	// src/figures/views/qkv.ts
	var SIGN_WIDTH$2 = 26;
	var GAP$1 = 16;
	/** Space for the formula after each line. */
	var FORMULA_WIDTH = 122;
	function qkv(data, canvas) {
		const head = data.head ?? 0;
		for (const note of attentionNotes(data)) canvas.note(note);
		const equations = equationsOf(data, head);
		let y = 0;
		let body = "";
		const left = Math.max(...equations.map((equation) => new RowLabels(canvas, equation.tokens).width));
		for (const equation of equations) {
			const drawn = drawEquation(equation, data, head, left, y, canvas);
			body += drawn.body;
			y = drawn.bottom + 12;
		}
		return {
			title: `${capitalised(attentionName(data.place))}, head ${head}: from X to Q, K and V`,
			description: sentences$3(data, head),
			body,
			height: y - 12
		};
	}
	function equationsOf(data, head) {
		const cross = data.place.kind === "cross";
		const x = {
			from: data.input,
			fromRole: "x",
			fromLabel: "X",
			tokens: data.queries
		};
		const memory = {
			from: data.memory,
			fromRole: "memory",
			fromLabel: "memory",
			tokens: data.keys
		};
		const keys = cross ? memory : x;
		return [
			{
				letter: "Q",
				role: "q",
				...x,
				weight: data.wq?.[head],
				result: data.q?.[head]
			},
			{
				letter: "K",
				role: "k",
				...keys,
				weight: data.wk?.[head],
				result: data.k?.[head]
			},
			{
				letter: "V",
				role: "v",
				...keys,
				weight: data.wv?.[head],
				result: data.v?.[head]
			}
		];
	}
	function sentences$3(data, head) {
		const [rows, width] = [data.queries.length, data.input?.cols ?? 0];
		const columns = data.q?.[0]?.cols ?? 0;
		const source = data.place.kind === "cross" ? `K and V are computed from the encoder’s output (memory, ${data.keys.length} × ${width}) with this layer’s W_K and W_V.` : "Each row of X is one token; Q, K and V are computed from the same X.";
		return [
			`Head ${head} of ${attentionName(data.place)}:`,
			`X (${rows} × ${width}) × W_Q (${width} × ${columns}) = Q (${rows} × ${columns}).`,
			source
		];
	}
	function drawEquation(equation, data, head, left, y, canvas) {
		const labels = new RowLabels(canvas, equation.tokens);
		const pitch = rowPitch(equation.from.rows, 180);
		const height = pitch * equation.from.rows;
		const room = canvas.width - left - 52 - (canvas.narrow ? 0 : FORMULA_WIDTH);
		const wide = Math.min(Math.max(height, 96), canvas.narrow ? 100 : 140, room * .55);
		const narrow = Math.min(64, room * .22, Math.max(24, equation.result.cols * 4));
		const lineHeight = Math.max(height, wide);
		const top = y + 27;
		const middle = top + lineHeight / 2;
		const bias = data.linearBias ? ` + b_${equation.letter}` : "";
		const rotated = data.rotated && equation.letter !== "V";
		let x = left;
		const rowsTop = middle - height / 2;
		let body = labels.draw(x, rowsTop, pitch, equation.letter === "Q" || data.place.kind === "self" ? data.token : null);
		body += labels.heading(x, rowsTop, pitch);
		body += drawMatrix(canvas, equation.from, {
			x,
			y: rowsTop,
			width: wide,
			height
		}, {
			role: equation.fromRole,
			kind: "activation",
			label: equation.fromLabel
		});
		x += wide;
		body += sign(canvas, x + SIGN_WIDTH$2 / 2, middle, "×");
		x += SIGN_WIDTH$2;
		const box = {
			x,
			y: middle - wide / 2,
			width: narrow,
			height: wide
		};
		body += drawMatrix(canvas, equation.weight, box, {
			role: equation.role,
			kind: "weight",
			label: `W_${equation.letter}^{${head}}`
		});
		x += narrow;
		body += sign(canvas, x + SIGN_WIDTH$2 / 2, middle, "=");
		x += SIGN_WIDTH$2;
		body += drawMatrix(canvas, equation.result, {
			x,
			y: rowsTop,
			width: narrow,
			height
		}, {
			role: equation.role,
			kind: "activation",
			label: `${equation.letter}_${head}`
		});
		x += narrow + GAP$1;
		const equationText = `${equation.letter} = ${equation.fromLabel} W_${equation.letter}${bias}`;
		const ink = {
			fill: canvas.theme.roles[equation.role].text,
			bold: true
		};
		if (x + formulaWidth(equationText, 8, true) <= canvas.width) body += formula(x, middle - 2, equationText, ink);
		wrap(rotated ? "then rotated by position" : MEANINGS[equation.letter], canvas.width - x).forEach((words, place) => {
			if (canvas.width - x > 60) body += text(x, middle + 10 + place * LINE_HEIGHT, words, { fill: canvas.theme.quiet });
		});
		return {
			body,
			bottom: top + lineHeight + 12
		};
	}
	var MEANINGS = {
		Q: "queries, compared with keys",
		K: "keys, compared with queries",
		V: "values, summed by weight"
	};
	/** An operator between matrices. */
	function sign(canvas, x, y, content) {
		return text(x, y + 5, content, {
			fill: canvas.theme.text,
			size: 14,
			anchor: "middle"
		});
	}
	// src/figures/views/concat.ts
	var SIGN_WIDTH$1 = 26;
	function concat(data, canvas) {
		for (const note of attentionNotes(data)) canvas.note(note);
		const joined = concatenated(data.context);
		const out = data.output;
		const labels = new RowLabels(canvas, data.queries);
		const pitch = rowPitch(joined.rows, 220);
		const height = pitch * joined.rows;
		const room = canvas.width - labels.width - 52;
		const wide = Math.min(room / 3, 190);
		const weightHeight = Math.min(wide, 170);
		const lineHeight = Math.max(height, weightHeight);
		const top = 27;
		const middle = top + lineHeight / 2;
		const rows = middle - height / 2;
		let x = labels.width;
		let body = labels.draw(x, rows, pitch, data.token) + labels.heading(x, rows, pitch);
		const numbered = data.heads <= 8 && !canvas.narrow;
		const style = {
			role: "z",
			kind: "activation",
			parts: data.heads
		};
		const label = data.heads > 1 ? `Z_0 … Z_{${data.heads - 1}}` : "Z_0";
		body += drawMatrix(canvas, joined, {
			x,
			y: rows,
			width: wide,
			height
		}, {
			...style,
			label
		});
		if (numbered) body += headNumbers(canvas, x, rows + height + 9, wide, data.heads);
		x += wide;
		body += sign(canvas, x + SIGN_WIDTH$1 / 2, middle, "×");
		x += SIGN_WIDTH$1;
		const box = {
			x,
			y: middle - weightHeight / 2,
			width: wide,
			height: weightHeight
		};
		body += drawMatrix(canvas, data.wo, box, {
			role: "z",
			kind: "weight",
			label: "W_O"
		});
		x += wide;
		body += sign(canvas, x + SIGN_WIDTH$1 / 2, middle, "=");
		x += SIGN_WIDTH$1;
		body += drawMatrix(canvas, out, {
			x,
			y: rows,
			width: wide,
			height
		}, {
			role: "x",
			kind: "activation",
			label: "output"
		});
		const bias = data.linearBias ? " + b_O" : "";
		return {
			title: `${capitalised(attentionName(data.place))}: heads concatenated, times W_O`,
			description: [
				`${plural(data.heads, "matrix", "matrices")} Z with ${data.context?.[0]?.cols ?? 0} columns each, concatenated`,
				`(${joined.rows} × ${joined.cols}), × W_O (${joined.cols} × ${out.cols})${bias}`,
				`= output (${out.rows} × ${out.cols}): one row per token again.`
			],
			body,
			height: top + lineHeight + 12 + (numbered ? 11 : 0)
		};
	}
	function headNumbers(canvas, x, y, width, heads) {
		let labels = text(x - 4, y + 12, "head", {
			fill: canvas.theme.roles.z.text,
			anchor: "end"
		});
		for (let head = 0; head < heads; head++) {
			const middle = x + width * (head + .5) / heads;
			labels += text(middle, y + 12, String(head), {
				fill: canvas.theme.roles.z.text,
				anchor: "middle"
			});
		}
		return labels;
	}
	/** Matrices side by side. */
	function concatenated(matrices) {
		const rows = matrices[0]?.rows ?? 0;
		const values = [];
		for (let row = 0; row < rows; row++) for (const one of matrices) values.push(...one.values.slice(row * one.cols, (row + 1) * one.cols));
		return {
			rows,
			cols: matrices.reduce((sum, one) => sum + one.cols, 0),
			values
		};
	}
	// src/figures/views/multiHead.ts
	var GAP = 7;
	var ARROW_SPACE = 17;
	var MAX_HEADS = 8;
	/** Indices of the heads (or layers) to draw; null stands for those left out, before the last. */
	function drawnIndices(count, max = MAX_HEADS) {
		const all = Array.from({ length: count }, (_, index) => index);
		return count <= max ? all : [
			...all.slice(0, max - 2),
			null,
			count - 1
		];
	}
	function multiHead(data, canvas) {
		for (const note of attentionNotes(data)) canvas.note(note);
		const left = inputs(data, canvas);
		const headRows = drawHeads(data, canvas, left.width);
		const height = Math.max(left.height, headRows.height);
		const outputRow = drawOutput(data, canvas, height + 14);
		const cross = data.place.kind === "cross" ? " Q is computed from X, K and V from the memory." : "";
		return {
			title: `${capitalised(attentionName(data.place))}: from input to output`,
			description: [
				`${plural(data.heads, "head")}: each computes Q, K and V with its own W_Q, W_K and W_V,`,
				"attention weights from Q and K, and Z as the weighted sum of V;",
				`all Z concatenated, times W_O, are the output (${data.output?.rows ?? 0} × ${data.output?.cols ?? 0}).${cross}`
			],
			body: left.draw(height) + headRows.draw(height) + outputRow.body,
			height: outputRow.height
		};
	}
	/** X, and in cross-attention the memory below it. */
	function inputs(data, canvas) {
		const cross = data.place.kind === "cross";
		const sides = [{
			matrix: data.input,
			tokens: data.queries,
			role: "x",
			label: "X"
		}, ...cross ? [{
			matrix: data.memory,
			tokens: data.keys,
			role: "memory",
			label: "memory"
		}] : []];
		const labels = sides.map((side) => new RowLabels(canvas, side.tokens, canvas.narrow ? 22 : 40));
		const wide = canvas.narrow ? 40 : 66;
		const start = Math.max(...labels.map((one) => one.width));
		const heights = sides.map((side) => rowPitch(side.matrix.rows, 160, 8.8) * side.matrix.rows);
		const height = heights.reduce((sum, one) => sum + one + 27 + 12, 0);
		return {
			width: start + wide,
			height,
			draw: (room) => {
				let y = (room - height) / 2;
				let body = "";
				sides.forEach((side, place) => {
					const matrixHeight = heights[place];
					y += 27;
					body += labels[place].draw(start, y, matrixHeight / side.matrix.rows, place === 0 ? data.token : null);
					const box = {
						x: start,
						y,
						width: wide,
						height: matrixHeight
					};
					body += drawMatrix(canvas, side.matrix, box, {
						role: side.role,
						kind: "activation",
						label: side.label
					});
					y += matrixHeight + 12;
				});
				return body;
			}
		};
	}
	/** One line per head. */
	function drawHeads(data, canvas, left) {
		const shown = drawnIndices(data.heads);
		const matrixHeight = shown.length <= 4 ? 56 : 32;
		const pitch = matrixHeight + 22;
		const columns = columnsOf(data, canvas, canvas.width - left, matrixHeight);
		const height = shown.reduce((sum, head) => sum + (head === null ? 16 : pitch), 0);
		return {
			height,
			draw: (room) => {
				let y = (room - height) / 2;
				let body = "";
				for (const head of shown) {
					if (head === null) {
						const rest = `⋮ ${plural(data.heads - shown.length + 1, "more head")}`;
						body += text(left + ARROW_SPACE + 8, y + 10, rest, { fill: canvas.theme.quiet });
						y += 16;
						continue;
					}
					body += drawHead(canvas, columns, head, left, y + 18, matrixHeight, room / 2);
					y += pitch;
				}
				return body;
			}
		};
	}
	function columnsOf(data, canvas, room, matrixHeight) {
		const weights = data.weights;
		const letters = [
			"Q",
			"K",
			"V"
		];
		const roles = [
			"q",
			"k",
			"v"
		];
		const withWeights = !canvas.narrow;
		if (!withWeights) canvas.note("At this width W_Q, W_K and W_V are left out.");
		const width = (room - ((withWeights ? 4 : 3) * ARROW_SPACE + (withWeights ? 4 : 2) * GAP)) / (withWeights ? 9.2 : 5.6);
		const columns = [];
		const activations = [
			data.q,
			data.k,
			data.v
		];
		if (withWeights) [
			data.wq,
			data.wk,
			data.wv
		].forEach((matrices, place) => {
			const scale = commonScale(canvas, matrices, width * 1.2, matrixHeight);
			const letter = `W_${letters[place]}`;
			columns.push({
				letter,
				role: roles[place],
				kind: "weight",
				matrices,
				scale,
				width: width * 1.2,
				before: place === 0 ? ARROW_SPACE : 9,
				sign: ""
			});
		});
		activations.forEach((matrices, place) => {
			const scale = commonScale(canvas, matrices, width, matrixHeight);
			columns.push({
				letter: letters[place],
				role: roles[place],
				kind: "activation",
				matrices,
				scale,
				width,
				before: place === 0 ? ARROW_SPACE : GAP,
				sign: place === 0 && withWeights ? "→" : ""
			});
		});
		const square = width * 1.6;
		columns.push({
			letter: "softmax",
			role: "none",
			kind: "activation",
			matrices: weights,
			scale: probabilityScale(weights),
			width: square,
			before: ARROW_SPACE,
			sign: "→"
		});
		const context = data.context;
		columns.push({
			letter: "Z",
			role: "z",
			kind: "activation",
			matrices: context,
			scale: commonScale(canvas, context, width, matrixHeight),
			width,
			before: ARROW_SPACE,
			sign: "→"
		});
		return columns;
	}
	function drawHead(canvas, columns, head, left, top, matrixHeight, centre) {
		const middle = top + matrixHeight / 2;
		const stroke = canvas.theme.faint;
		const [from, to] = [left + 3, left + ARROW_SPACE - 4];
		let body = tag("path", {
			d: `M${from} ${Math.round(centre)}L${Math.round(to)} ${Math.round(middle)}`,
			fill: "none",
			stroke,
			"stroke-width": 1
		});
		let x = left;
		for (const column of columns) {
			x += column.before;
			if (column.sign !== "") body += sign(canvas, x - ARROW_SPACE / 2, middle, column.sign);
			const box = {
				x,
				y: top,
				width: column.width,
				height: matrixHeight
			};
			const label = column.letter === "softmax" ? "" : column.kind === "weight" ? `${column.letter}^{${head}}` : `${column.letter}_{${head}}`;
			const style = {
				role: column.role,
				kind: column.kind,
				label,
				scale: column.scale,
				sizes: "none"
			};
			body += drawMatrix(canvas, column.matrices[head], box, style);
			if (label === "") body += text(x + column.width / 2, top - 4, "softmax", {
				fill: canvas.theme.quiet,
				anchor: "middle"
			});
			x += column.width;
		}
		return body;
	}
	/** All Z × W_O = output. */
	function drawOutput(data, canvas, y) {
		const joined = concatenated(data.context);
		const out = data.output;
		const labels = new RowLabels(canvas, data.queries, canvas.narrow ? 22 : 40);
		const room = canvas.width - labels.width - 52;
		const wide = Math.min(room / 3, 150);
		const pitch = rowPitch(joined.rows, 150, 8.8);
		const height = pitch * joined.rows;
		const weightHeight = Math.min(wide, 130);
		const lineHeight = Math.max(height, weightHeight);
		const middle = y + 27 + lineHeight / 2;
		const rows = middle - height / 2;
		let x = labels.width;
		let body = labels.draw(x, rows, pitch, data.token);
		const label = data.heads > 1 ? `Z_0 … Z_{${data.heads - 1}}` : "Z_0";
		body += drawMatrix(canvas, joined, {
			x,
			y: rows,
			width: wide,
			height
		}, {
			role: "z",
			kind: "activation",
			label,
			parts: data.heads
		});
		x += wide;
		body += sign(canvas, x + 13, middle, "×");
		x += 26;
		body += drawMatrix(canvas, data.wo, {
			x,
			y: middle - weightHeight / 2,
			width: wide,
			height: weightHeight
		}, {
			role: "z",
			kind: "weight",
			label: "W_O"
		});
		x += wide;
		body += sign(canvas, x + 13, middle, "=");
		x += 26;
		body += drawMatrix(canvas, out, {
			x,
			y: rows,
			width: wide,
			height
		}, {
			role: "x",
			kind: "activation",
			label: "output"
		});
		return {
			body,
			height: y + 27 + lineHeight + 12
		};
	}
	// src/figures/views/crossAttention.ts
	var MAX_LAYERS = 6;
	function crossAttention(data, canvas) {
		canvas.note("Layers are counted from 0.");
		const labels = new RowLabels(canvas, data.tokens, canvas.narrow ? 26 : 46);
		const shown = drawnIndices(data.layers.length, MAX_LAYERS);
		const widths = columnWidths(canvas, labels.width);
		const matrixHeight = shown.length <= 3 ? 54 : 40;
		const pitch = matrixHeight + 27 + 12 + 15;
		const layersHeight = shown.reduce((sum, layer) => sum + (layer === null ? 16 : pitch), 0);
		const memoryPitch = rowPitch(data.tokens.length, 190);
		const memoryHeight = memoryPitch * data.tokens.length;
		const height = Math.max(layersHeight, memoryHeight + 27 + 12);
		const middle = (height - 12 + 27) / 2;
		const top = middle - memoryHeight / 2;
		let body = labels.draw(labels.width, top, memoryPitch);
		const box = {
			x: labels.width,
			y: top,
			width: widths.memory,
			height: memoryHeight
		};
		body += drawMatrix(canvas, data.memory, box, {
			role: "memory",
			kind: "activation",
			label: "memory"
		});
		let y = (height - layersHeight) / 2;
		for (const layer of shown) {
			if (layer === null) {
				const rest = `⋮ ${plural(data.layers.length - shown.length + 1, "more layer")}`;
				body += text(labels.width + widths.memory + 30, y + 10, rest, { fill: canvas.theme.quiet });
				y += 16;
				continue;
			}
			const centre = y + 27 + matrixHeight / 2;
			const start = labels.width + widths.memory;
			body += line(start + 2, middle, start + widths.gap - 5, centre, canvas.theme.roles.memory.fill, 1);
			body += drawLayer(data, data.layers[layer], start + widths.gap, y + 27, matrixHeight, widths, canvas);
			y += pitch;
		}
		return {
			title: "Cross-attention: K and V of each decoder layer, from the encoder’s output",
			description: sentences$2(data),
			body,
			height
		};
	}
	function columnWidths(canvas, labels) {
		const gap = canvas.narrow ? 16 : 30;
		const unit = (canvas.width - labels - gap - (canvas.narrow ? 32 : 92)) / (canvas.narrow ? 5.2 : 6.8);
		return {
			memory: unit * 1.2,
			gap,
			weight: unit * .8,
			result: unit * 1.2
		};
	}
	function drawLayer(data, layer, left, top, matrixHeight, widths, canvas) {
		const arrow = canvas.narrow ? 11 : 14;
		const centre = top + matrixHeight / 2;
		const baseline = top + matrixHeight + 11.5;
		const pairs = [{
			letter: "K",
			role: "k",
			weight: layer.wk,
			result: layer.k,
			shared: layer.kSharedWith
		}, {
			letter: "V",
			role: "v",
			weight: layer.wv,
			result: layer.v,
			shared: layer.vSharedWith
		}];
		let x = left;
		let body = "";
		for (const pair of pairs) {
			const weight = {
				x,
				y: top,
				width: widths.weight,
				height: matrixHeight
			};
			body += drawMatrix(canvas, pair.weight, weight, {
				role: pair.role,
				kind: "weight",
				label: `W_${pair.letter}^{${layer.layer}}`,
				sizes: "none"
			});
			const ownership = pair.shared === null ? "own" : `shared with ${shortened(pair.shared)}`;
			const ink = {
				fill: pair.shared === null ? canvas.theme.roles[pair.role].text : canvas.theme.accent,
				anchor: "middle",
				bold: true
			};
			const room = pair.shared === null ? widths.weight + 8 : widths.weight + arrow + widths.result;
			const middle = pair.shared === null ? x + widths.weight / 2 : x + room / 2;
			body += text(middle, baseline, truncate(ownership, room, 8, true), ink);
			x += widths.weight;
			body += sign(canvas, x + arrow / 2 + 1, centre, "→");
			x += arrow + 2;
			const result = {
				x,
				y: top,
				width: widths.result,
				height: matrixHeight
			};
			body += drawMatrix(canvas, pair.result, result, {
				role: pair.role,
				kind: "activation",
				label: `${pair.letter}^{${layer.layer}}`,
				parts: data.heads,
				sizes: canvas.narrow || pair.shared !== null ? "none" : "below"
			});
			x += widths.result + (canvas.narrow ? 10 : 14) - 2;
		}
		return canvas.narrow ? body : body + encoderWeights(data, layer, x, top, matrixHeight, widths, canvas);
	}
	/** W_K and W_V of the encoder's last layer, greyed out because cross-attention does not use them. */
	function encoderWeights(data, layer, left, top, matrixHeight, widths, canvas) {
		const sides = [[
			"K",
			data.encoderTop.wk,
			layer.kCosine,
			"k",
			layer.kSharedWith
		], [
			"V",
			data.encoderTop.wv,
			layer.vCosine,
			"v",
			layer.vSharedWith
		]];
		const encoder = `encoder.layers.${data.encoderTop.layer}.`;
		let x = left + 8;
		const same = sides.some(([, , , , shared]) => shared !== null && shared.startsWith(encoder));
		let body = sign(canvas, x, top + matrixHeight / 2, same ? "=" : "≠");
		x += 12;
		for (const [letter, matrix, cosine, role] of sides) {
			const box = {
				x,
				y: top,
				width: widths.weight,
				height: matrixHeight
			};
			body += drawMatrix(canvas, matrix, box, {
				role,
				kind: "weight",
				label: `enc. W_${letter}`,
				pale: true,
				sizes: "none"
			});
			const label = cosine === null ? "" : `cos ${signed(cosine)}`;
			body += text(x + widths.weight / 2, top + matrixHeight + 11.5, label, {
				fill: canvas.theme.quiet,
				anchor: "middle"
			});
			x += widths.weight + 12;
		}
		return body;
	}
	/** Two decimals, and no −0.00. */
	function signed(x) {
		const rounded = Math.round(x * 100) / 100;
		return (rounded === 0 ? 0 : rounded).toFixed(2).replace("-", "−");
	}
	/** "decoder.layers.0.cross_attention.k_proj.weight" as "decoder 0 cross W_K". */
	function shortened(name) {
		const match = /^(encoder|decoder)\.layers\.(\d+)\.(self|cross)_attention\.([qkv])_proj/.exec(name);
		return match ? `${match[1]} ${match[2]} ${match[3]} W_${match[4].toUpperCase()}` : name;
	}
	function sentences$2(data) {
		const untied = data.layers.filter((layer) => layer.kSharedWith === null && layer.vSharedWith === null).length;
		const { rows, cols } = data.memory;
		const all = data.layers.length;
		return [
			`${all === 1 ? "The decoder layer" : `Each of the ${all} decoder layers`} computes its K and V once per sentence`,
			`from the encoder’s output (memory, ${rows} × ${cols})${untied === all ? ", with its own W_K and W_V" : ""}.`,
			untied === all ? "" : `Layers with their own W_K and W_V: ${untied} of ${all}; the others share them.`,
			...similarity(data)
		].filter((sentence) => sentence !== "");
	}
	/** Cosines of the decoder's weights with the encoder's, if known. */
	function similarity(data) {
		const cosines = data.layers.flatMap((layer) => [layer.kCosine, layer.vCosine]).filter((cosine) => cosine !== null);
		if (cosines.length === 0) return [];
		const [smallest, largest] = [Math.min(...cosines), Math.max(...cosines)];
		const verdict = Math.max(-smallest, largest) < .2 ? "unrelated matrices" : "not all are unrelated";
		return [`Cosines with W_K and W_V of the encoder’s last layer: ${decimal(smallest)} to ${decimal(largest)} (${verdict}).`];
	}
	// src/figures/views/selfAttention.ts
	var SIGN_WIDTH = 24;
	function selfAttention(data, canvas) {
		const head = data.head ?? 0;
		for (const note of attentionNotes(data)) canvas.note(note);
		const drawing = draw(data, head, canvas);
		const weights = data.weights?.[head];
		const row = data.token ?? sharpestRows(data, [weights])[0]?.[1] ?? 0;
		return {
			title: `${capitalised(attentionName(data.place))}, head ${head}: from Q, K and V to Z`,
			description: [
				`Head ${head} of ${attentionName(data.place)}:`,
				`${attendsMostTo(data.queries[row], weights, row, data.keys)};`,
				"its row of Z is the sum of the rows of V, each times its weight."
			],
			...drawing
		};
	}
	function draw(data, head, canvas) {
		const [q, k, v, z] = [
			data.q,
			data.k,
			data.v,
			data.context
		].map((list) => list?.[head]);
		const labels = new RowLabels(canvas, data.queries, canvas.narrow ? 26 : 54);
		const columns = new ColumnLabels(canvas, data.keys.map((token) => tokenText(token.after ?? token.text)), canvas.narrow ? 34 : 50);
		const keyLabels = new RowLabels(canvas, data.keys.map((token) => ({ text: token.after ?? token.text })), canvas.narrow ? 26 : 50);
		const pitch = rowPitch(q.rows, 180);
		const height = pitch * q.rows;
		const room = canvas.width - labels.width - 48 - columns.overhang;
		const narrow = Math.min(72, room * .22, Math.max(20, q.cols * 4));
		const square = Math.min(210, Math.max(room - 2 * narrow - keyLabels.width, room * .36), Math.max(k.rows * 14, 92));
		const column = square / k.rows;
		const keyHeightTransposed = narrow;
		const first = Math.max(height, keyHeightTransposed + columns.height);
		const top = 27 + columns.height;
		const middle = top + height / 2;
		let x = labels.width;
		let body = labels.draw(x, top, pitch, data.token);
		if (!canvas.narrow) body += labels.heading(x, top, pitch);
		body += drawMatrix(canvas, q, {
			x,
			y: top,
			width: narrow,
			height
		}, {
			role: "q",
			kind: "activation",
			label: `Q_${head}`
		});
		x += narrow;
		body += sign(canvas, x + SIGN_WIDTH / 2, middle, "×");
		x += SIGN_WIDTH;
		const keyRoom = Math.min(square, room - narrow - square);
		const keyTop = Math.max(top, middle - keyHeightTransposed / 2);
		body += drawMatrix(canvas, transposed(k), {
			x,
			y: keyTop,
			width: keyRoom,
			height: keyHeightTransposed
		}, {
			role: "k",
			kind: "activation",
			label: `K_${head}^T`
		});
		x += keyRoom;
		body += sign(canvas, x + SIGN_WIDTH / 2, middle, "→");
		x += SIGN_WIDTH;
		const scores = {
			x,
			y: top,
			width: square,
			height
		};
		body += drawMatrix(canvas, data.scores?.[head], scores, {
			role: "none",
			kind: "activation",
			label: "",
			sizes: "below"
		});
		body += columns.draw(x, top, column);
		body += formula(x, top - columns.height - 3, scoreName(data, q.cols), {
			fill: canvas.theme.text,
			bold: true
		});
		const lower = top + first + 12 + 6 + 27 + columns.height;
		const keyPitch = rowPitch(v.rows, 180);
		const keyHeight = keyPitch * v.rows;
		const lineHeight = Math.max(height, keyHeight);
		const centre = lower + lineHeight / 2;
		const weightsTop = centre - height / 2;
		x = labels.width;
		const weights = data.weights?.[head];
		const scale = probabilityScale([weights]);
		body += labels.draw(x, weightsTop, pitch, data.token);
		body += drawMatrix(canvas, weights, {
			x,
			y: weightsTop,
			width: square,
			height
		}, {
			role: "none",
			kind: "activation",
			label: "",
			scale,
			sizes: "below"
		});
		body += columns.draw(x, weightsTop, column);
		body += formula(x, weightsTop - columns.height - 3, "softmax of each row", {
			fill: canvas.theme.text,
			bold: true
		});
		x += square;
		body += sign(canvas, x + SIGN_WIDTH / 2 + 2, centre, "×");
		x += SIGN_WIDTH + keyLabels.width;
		const valueTop = centre - keyHeight / 2;
		body += keyLabels.draw(x, valueTop, keyPitch);
		body += drawMatrix(canvas, v, {
			x,
			y: valueTop,
			width: narrow,
			height: keyHeight
		}, {
			role: "v",
			kind: "activation",
			label: `V_${head}`
		});
		x += narrow;
		body += sign(canvas, x + SIGN_WIDTH / 2, centre, "=");
		x += SIGN_WIDTH;
		body += drawMatrix(canvas, z, {
			x,
			y: weightsTop,
			width: narrow,
			height
		}, {
			role: "z",
			kind: "activation",
			label: `Z_${head}`
		});
		return {
			body,
			height: lower + lineHeight + 12
		};
	}
	function scoreName(data, width) {
		return `Q K^T${data.scaled ? ` / √${width}` : ""}${data.biased ? " + bias" : ""}`;
	}
	function transposed(matrix) {
		const values = [];
		for (let col = 0; col < matrix.cols; col++) for (let row = 0; row < matrix.rows; row++) values.push(matrix.values[row * matrix.cols + col]);
		return {
			rows: matrix.cols,
			cols: matrix.rows,
			values
		};
	}
	// src/figures/views/decodingSteps.ts
	var MAX_STEPS = 14;
	var STRIP_HEIGHT = 17;
	var STEP_PITCH = 25;
	var HEADING = "input → output";
	function decodingSteps(data, canvas) {
		canvas.note("Layers, heads and steps are counted from 0.");
		const steps = chosenSteps(data.target.length);
		if (steps.length < data.target.length) canvas.note(`${steps.length} of ${data.target.length} steps are shown.`);
		return {
			title: `Decoding step by step: ${data.recurrent ? "state and cached keys" : "cached keys"} of decoder layer ${data.layer}, head ${data.head}`,
			description: sentences$1(data),
			...strips(data, steps, canvas)
		};
	}
	/** The steps to draw: the first four, the last, and some in between. */
	function chosenSteps(count, max = MAX_STEPS) {
		if (count <= max) return Array.from({ length: count }, (_, step) => step);
		return [
			0,
			1,
			2,
			3,
			...Array.from({ length: max - 4 }, (_, place) => 4 + Math.round(place * (count - 5) / (max - 5))).filter((step) => step > 3)
		];
	}
	function sentences$1(data) {
		const [steps, source] = [data.target.length, data.source.length];
		const recurrent = [`This decoder has no self-attention: each layer has one state vector of ${data.selfK.cols} numbers (SSRU)`, "and overwrites it in every step."];
		const growing = ["Each step adds one column to the keys and values of the target and reuses the others:", `${plural(steps, "position")} computed instead of ${steps * (steps + 1) / 2}.`];
		const first = data.target[0];
		return [
			...data.recurrent ? recurrent : growing,
			`The keys and values of the ${source} source tokens are computed once, before the first step, and never change.`,
			data.layers > 1 ? `The same holds for each of the ${data.layers} layers.` : "",
			first === void 0 ? "" : `The input of step 0 is ${quoted(first.after ?? "")}, its output ${quoted(first.text)}.`
		].filter((sentence) => sentence !== "");
	}
	function strips(data, steps, canvas) {
		const { theme } = canvas;
		const maxWidth = canvas.narrow ? 30 : 52;
		const columnWidth = (pick) => Math.min(maxWidth, Math.max(...data.target.map((token) => textWidth(tokenText(token[pick] ?? ""), 8))));
		const [before, after] = [columnWidth("after"), columnWidth("text")];
		const number = textWidth(String(data.target.length - 1), 8) + 6;
		const longestCount = data.recurrent ? "overwritten" : `1 new, ${data.target.length - 1} reused`;
		const left = Math.max(number + before + 12 + after, number + textWidth(longestCount, 8), textWidth(HEADING, 8)) + 8;
		const targetColumns = data.recurrent ? 3 : data.target.length;
		const targets = new ColumnLabels(canvas, data.recurrent ? [] : data.target.map((one) => tokenText(one.after ?? "")), 40);
		const sources = new ColumnLabels(canvas, data.source.map((one) => tokenText(one.text)), 40);
		const gap = 14;
		const headingWidths = data.recurrent ? {
			narrow: 84,
			wide: 190
		} : {
			narrow: 50,
			wide: 150
		};
		const headingWidth = canvas.narrow ? headingWidths.narrow : headingWidths.wide;
		const fitting = (canvas.width - left - gap - sources.overhang) / (targetColumns + data.source.length);
		const selfX = left;
		const crossX = left + Math.max(targetColumns * Math.min(14, fitting) + gap, headingWidth);
		const column = Math.min(14, fitting, (canvas.width - crossX - sources.overhang) / data.source.length);
		const top = Math.max(targets.height, sources.height) + 13;
		let body = "";
		body += targets.draw(selfX, top, column) + sources.draw(crossX, top, column);
		const selfK = transposed(data.selfK);
		const crossK = transposed(data.crossK);
		const scaleOf = (keys) => signedScale([fitted(canvas, keys, keys.cols * column, STRIP_HEIGHT, Math.min(4.8, column))]);
		const scales = {
			self: scaleOf(selfK),
			cross: scaleOf(crossK)
		};
		canvas.legendItems.push({
			meaning: "computed in this step",
			style: {
				fill: "none",
				stroke: theme.accent,
				"stroke-width": 1.4
			}
		});
		canvas.note("Pale columns are reused.");
		body += heading(data, canvas, selfX, crossX, decimal(scales.self.limit), decimal(scales.cross.limit));
		steps.forEach((step, place) => {
			const y = top + place * STEP_PITCH;
			const token = data.target[step];
			const x = number + before;
			body += text(number - 6, y + 8, String(step), {
				fill: theme.text,
				bold: true,
				anchor: "end"
			});
			body += text(x, y + 8, truncate(tokenText(token?.after ?? ""), before + .01), {
				fill: theme.quiet,
				anchor: "end"
			});
			body += text(x + 6, y + 8, "→", {
				fill: theme.quiet,
				anchor: "middle"
			});
			body += text(x + 12, y + 8, truncate(tokenText(token?.text ?? ""), after + .01), { fill: theme.text });
			const count = data.recurrent ? "overwritten" : `1 new${step > 0 ? `, ${step} reused` : ""}`;
			body += text(left - 8, y + 17.5, count, {
				fill: theme.roles.k.text,
				anchor: "end"
			});
			body += data.recurrent ? stateVector(canvas, data, step, {
				x: selfX,
				y,
				width: 2.4 * column,
				height: STRIP_HEIGHT
			}, scales.self) : targetCache(canvas, selfK, step, selfX, y, column, data.target.length, scales.self);
			const box = {
				x: crossX,
				y,
				width: column * crossK.cols,
				height: STRIP_HEIGHT
			};
			const drawn = cells(canvas, fitted(canvas, crossK, box.width, STRIP_HEIGHT, Math.min(4.8, column)), box, scales.cross);
			body += place === 0 ? drawn : tag("g", { opacity: "0.5" }, drawn);
			const stroke = place === 0 ? theme.accent : theme.roles.memory.fill;
			body += tag("rect", {
				...box,
				fill: "none",
				stroke,
				"stroke-width": place === 0 ? 1.4 : .7
			});
		});
		return {
			body,
			height: top + steps.length * STEP_PITCH - 8 + 2
		};
	}
	function heading(data, canvas, selfX, crossX, self, source) {
		const { theme } = canvas;
		canvas.limits = true;
		const target = data.recurrent ? `${canvas.narrow ? "" : "no self-attention: "}one vector, ±${self}` : canvas.narrow ? `self: ±${self}` : `self-attention: K so far, ±${self}`;
		const cross = canvas.narrow ? `cross: ±${source}` : `cross-attention: K, computed once, ±${source}`;
		return text(0, 8, HEADING, { fill: theme.quiet }) + formula(selfX, 8, target, {
			fill: theme.roles.k.text,
			bold: true
		}) + formula(crossX, 8, truncate(cross, canvas.width - crossX, 8, true), {
			fill: theme.roles.memory.text,
			bold: true
		});
	}
	/** The cache of the target after a step: earlier columns pale, the new one framed, later ones empty. */
	function targetCache(canvas, keys, step, x, y, column, total, scale) {
		const { theme } = canvas;
		const columns = (from, to) => {
			if (to <= from) return "";
			const values = [];
			for (let row = 0; row < keys.rows; row++) values.push(...keys.values.slice(row * keys.cols + from, row * keys.cols + to));
			const box = {
				x: x + from * column,
				y,
				width: (to - from) * column,
				height: STRIP_HEIGHT
			};
			return cells(canvas, fitted(canvas, {
				rows: keys.rows,
				cols: to - from,
				values
			}, box.width, STRIP_HEIGHT, Math.min(4.8, column)), box, scale);
		};
		const outline = tag("rect", {
			x,
			y,
			width: total * column,
			height: STRIP_HEIGHT,
			fill: "none",
			stroke: theme.faint,
			"stroke-dasharray": "2 2",
			"stroke-width": .6
		});
		const newColumn = tag("rect", {
			x: x + step * column,
			y,
			width: column,
			height: STRIP_HEIGHT,
			fill: "none",
			stroke: theme.accent,
			"stroke-width": 1.4
		});
		return outline + tag("g", { opacity: "0.5" }, columns(0, step)) + columns(step, step + 1) + newColumn;
	}
	/** The state of a recurrent decoder after a step. */
	function stateVector(canvas, data, step, box, scale) {
		const { cols, values } = data.selfK;
		const column = {
			rows: cols,
			cols: 1,
			values: values.slice(step * cols, (step + 1) * cols)
		};
		const frame = tag("rect", {
			...box,
			fill: "none",
			stroke: canvas.theme.accent,
			"stroke-width": 1.4
		});
		return cells(canvas, fitted(canvas, column, box.width, box.height, 4.8), box, scale) + frame;
	}
	// src/figures/views/heads.ts
	function heads(data, canvas) {
		for (const note of attentionNotes(data)) canvas.note(note);
		const marked = data.place.kind === "self" ? data.token : null;
		const rows = [
			{
				letter: "Q",
				role: "q",
				matrices: data.q,
				tokens: data.queries,
				marked: data.token
			},
			{
				letter: "K",
				role: "k",
				matrices: data.k,
				tokens: data.keys,
				marked
			},
			{
				letter: "V",
				role: "v",
				matrices: data.v,
				tokens: data.keys,
				marked
			}
		];
		const columns = data.q?.[0]?.cols ?? 0;
		const cross = data.place.kind === "cross" ? " K and V have one row per source token." : "";
		return {
			title: `${capitalised(attentionName(data.place))}: Q, K and V of ${plural(data.heads, "head")}`,
			description: [`${plural(data.heads, "head")} with ${columns} columns each; every head has its own part of W_Q, W_K and W_V.${cross}`],
			...grid(rows, canvas)
		};
	}
	function headsOut(data, canvas) {
		for (const note of attentionNotes(data)) canvas.note(note);
		const contexts = {
			letter: "Z",
			role: "z",
			matrices: data.context,
			tokens: data.queries,
			marked: data.token
		};
		const share = data.share ?? [];
		const total = share.reduce((sum, one) => sum + one, 0);
		const named = share.map((_, head) => head).sort((a, b) => share[b] - share[a] || a - b).slice(0, 3).map((head) => `head ${head} ${percent(share[head], total)}`);
		return {
			title: `${capitalised(attentionName(data.place))}: Z of ${plural(data.heads, "head")}`,
			description: [`For each head, Z = softmax(Q Kᵀ${data.scaled ? " / √K" : ""}) V.`, `Bars: norm of the head's part of the output (Z × its rows of W_O), mean over positions: ${named.join(", ")}.`],
			...grid([contexts], canvas, share)
		};
	}
	function percent(part, whole) {
		return `${whole > 0 ? Math.round(100 * part / whole) : 0} %`;
	}
	/** One column per head, one line per matrix row; heads that do not fit next to each other go into the next block. */
	function grid(rows, canvas, share = []) {
		const labels = rows.map((row) => new RowLabels(canvas, row.tokens, canvas.narrow ? 30 : 50));
		const left = Math.max(...labels.map((one) => one.width));
		const count = rows[0]?.matrices.length ?? 0;
		const columns = rows[0]?.matrices[0]?.cols ?? 1;
		const room = canvas.width - left;
		const gap = canvas.narrow ? 7 : 12;
		const minWidth = 40;
		const fitting = Math.min(count, Math.max(1, Math.floor((room + gap) / (minWidth + gap))), 8);
		const across = Math.ceil(count / Math.ceil(count / fitting));
		const width = Math.min((room - (across - 1) * gap) / across, Math.max(minWidth, columns * 3.2), 130);
		const lines = rows.length * Math.ceil(count / across);
		const maxHeight = Math.min(170, Math.max(48, 640 / lines - 45));
		let body = "";
		let y = 0;
		for (let first = 0; first < count; first += across) {
			rows.forEach((row, line) => {
				const pitch = rowPitch(row.tokens.length, maxHeight);
				const height = pitch * row.tokens.length;
				const top = y + 27;
				const scale = commonScale(canvas, row.matrices, width, height);
				const rowLabels = labels[line];
				body += rowLabels.draw(left, top, pitch, row.marked);
				body += rowLabels.heading(left, top, pitch);
				for (let head = first; head < Math.min(first + across, count); head++) {
					const box = {
						x: left + (head - first) * (width + gap),
						y: top,
						width,
						height
					};
					const style = {
						role: row.role,
						kind: "activation",
						label: `${row.letter}_{${head}}`,
						scale
					};
					body += drawMatrix(canvas, row.matrices[head], box, style);
					body += share.length > 0 ? shareBar(canvas, box.x, top + height + 12 + 2, width, share, head) : "";
				}
				y = top + height + 12 + (share.length > 0 ? 20 : 0) + 5;
			});
			y += 4;
		}
		return {
			body,
			height: y - 9
		};
	}
	/** A head's share of the output, as a bar and a number. */
	function shareBar(canvas, x, y, width, share, head) {
		const total = share.reduce((sum, one) => sum + one, 0);
		const largest = Math.max(...share, 1e-9);
		const norm = share[head];
		const { theme } = canvas;
		return tag("rect", {
			x,
			y,
			width,
			height: 5,
			fill: theme.mat
		}) + tag("rect", {
			x,
			y,
			width: width * norm / largest,
			height: 5,
			fill: theme.roles.z.fill
		}) + text(x + width / 2, y + 14, `${decimal(norm)} (${percent(norm, total)})`, {
			fill: theme.quiet,
			anchor: "middle"
		});
	}
	// src/figures/views/softmax.ts
	var ROW_HEIGHT = 14;
	var BAR_HEIGHT = 9;
	function softmax(data, canvas) {
		const rows = data.likeliest.map((one) => ({
			label: tokenText(one.text),
			probability: one.probability,
			written: one.written,
			rest: false
		}));
		if (data.rest.count > 0) rows.push({
			label: plural(data.rest.count, "other"),
			probability: data.rest.probability,
			written: false,
			rest: true
		});
		const before = data.before.map(tokenText);
		const last = data.before[data.before.length - 1] ?? "";
		return {
			title: `Next-token probabilities at target position ${data.position}, after ${quoted(last)}`,
			description: sentences(data),
			...bars(rows, before, canvas)
		};
	}
	function sentences(data) {
		const named = data.likeliest.slice(0, 3).map((one) => `${quoted(one.text)} ${probability(one.probability)}`);
		const rest = `${plural(data.rest.count, "other token")} together ${probability(data.rest.probability)}`;
		return [
			`Position ${data.position} of ${data.positions}, counted from 0: ${named.join(", ")}; ${rest}.`,
			`Token written: ${quoted(data.written)} (${probability(data.writtenProbability)}).`,
			`Entropy ${decimal(data.entropy)} nats.`
		];
	}
	function bars(rows, before, canvas) {
		const { theme } = canvas;
		const labels = Math.min(canvas.narrow ? 70 : 110, Math.max(...rows.map((row) => textWidth(row.label, 8, row.written)))) + 5;
		const room = canvas.width - labels - 74;
		const top = 26;
		const height = rows.length * ROW_HEIGHT;
		let body = prefix(before, canvas);
		for (const tick of [
			0,
			.25,
			.5,
			.75,
			1
		]) {
			const x = labels + tick * room;
			body += line(x, 24, x, top + height, theme.faint, .5);
			body += text(x, 21, String(tick), {
				fill: theme.quiet,
				anchor: "middle"
			});
		}
		rows.forEach((row, place) => {
			const y = top + place * ROW_HEIGHT + 5 / 2;
			const fill = row.written ? theme.roles.z.fill : theme.roles.memory.fill;
			const style = row.rest ? {
				fill: `url(#${canvas.hatch})`,
				stroke: theme.quiet,
				"stroke-width": .5
			} : { fill };
			if (row.rest) canvas.hatches = true;
			const ink = row.written ? theme.accent : row.rest ? theme.quiet : theme.text;
			const width = row.probability * room;
			const value = probability(row.probability) + (row.written ? " written" : "");
			body += text(labels - 5, y + 7.2, truncate(row.label, labels - 5, 8, row.written), {
				fill: ink,
				bold: row.written,
				anchor: "end"
			});
			if (width > .05) body += tag("rect", {
				x: labels,
				y,
				width,
				height: BAR_HEIGHT,
				...style
			});
			body += text(labels + width + 4, y + 7.2, value, {
				fill: ink,
				bold: row.written,
				halo: theme.ground
			});
		});
		return {
			body: body + line(labels, 24, labels, top + height, theme.quiet, .8),
			height: top + height
		};
	}
	/** The target so far; a long one is truncated at its beginning, because its end matters. */
	function prefix(before, canvas) {
		let tokens = before.map(isolated);
		const room = canvas.width - 8;
		while (tokens.length > 1 && textWidth(`target so far: ${tokens.join(" ")} ▁`, 8) > room) tokens = ["…", ...tokens.slice(tokens[0] === "…" ? 2 : 1)];
		return text(0, 8, truncate(`target so far: ${tokens.join(" ")} _`, room), { fill: canvas.theme.quiet });
	}
	// src/figures/index.ts
	var VIEWS = {
		qkv,
		"self-attention": selfAttention,
		heads,
		"heads-out": headsOut,
		concat,
		"multi-head": multiHead,
		"cross-attention": crossAttention,
		attention,
		"decoding-steps": decodingSteps,
		beam,
		softmax
	};
	var views = Object.keys(VIEWS);
	function render(view, data, options = {}) {
		const { drawing, canvas } = drawView(view, data, options);
		return svgDocument(drawing, canvas);
	}
	/** The description of a figure: its caption and alternative text. */
	function describe(view, data, options = {}) {
		const { drawing, canvas } = drawView(view, data, options);
		return descriptionOf(drawing, canvas);
	}
	function drawView(view, data, options) {
		const draw = VIEWS[view];
		if (draw === void 0) throw new Error(`There is no view ${view}; choose one of ${views.join(", ")}.`);
		const id = hash(JSON.stringify([
			view,
			options,
			data
		], (name, value) => name === "values" ? null : value));
		let canvas = new Canvas(options, false, id);
		let drawing = draw(data, canvas);
		if (canvas.cells > 2500) {
			canvas = new Canvas(options, true, id);
			drawing = draw(data, canvas);
		}
		return {
			drawing,
			canvas
		};
	}
	/** FNV-1a hash of the input, as a short id. */
	function hash(content) {
		let h = 2166136261;
		for (let i = 0; i < content.length; i++) h = Math.imul(h ^ content.charCodeAt(i), 16777619) >>> 0;
		return h.toString(36);
	}
	exports.describe = describe;
	exports.render = render;
	exports.textWidth = textWidth;
	exports.views = views;
	return exports;
})({});
