var glassformerFigures = (function(exports) {
	Object.defineProperty(exports, Symbol.toStringTag, { value: "Module" });
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
	/** The colour at `t` from 0 to 1 of a table of colours, straight between its neighbours. */
	function between(table, t) {
		const place = Math.max(0, Math.min(1, t)) * (table.length - 1);
		const index = Math.min(Math.floor(place), table.length - 2);
		const low = rgb(table[index]);
		const high = rgb(table[index + 1]);
		return low.map((part, i) => Math.round(part + (high[i] - part) * (place - index)));
	}
	/** Every colour of a scale; the middle one of a signed scale is exactly 0's. */
	function palette(scale, theme) {
		const table = scale.kind === "signed" ? theme.diverging : theme.sequential;
		return Array.from({ length: 255 }, (_, step) => between(table, step / 254));
	}
	/** Which colour of the palette a value has. */
	function step(value, scale) {
		if (scale.limit === 0) return scale.kind === "signed" ? 127 : 0;
		const t = scale.kind === "signed" ? (value / scale.limit + 1) / 2 : value / scale.limit;
		return Math.round(Math.max(0, Math.min(1, t)) * 254);
	}
	function colour(value, scale, theme) {
		return hex(between(scale.kind === "signed" ? theme.diverging : theme.sequential, step(value, scale) / 254));
	}
	/** Black or white, whichever reads better on a colour. */
	function readableOn(ground) {
		const [r, g, b] = rgb(ground);
		return .299 * r + .587 * g + .114 * b > 140 ? "#000000" : "#ffffff";
	}
	/** |x| below which 99.5 % of the values lie, rounded up to two digits: a few large ones must not whiten the rest. */
	function signedScale(matrices) {
		const sizes = sorted(matrices);
		return {
			kind: "signed",
			limit: roundedUp(sizes[Math.ceil(.995 * (sizes.length - 1))] ?? 0)
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
	/** From 0 to the first round number that hardly any value exceeds. */
	function probabilityScale(matrices) {
		const sizes = sorted(matrices);
		const most = sizes[Math.floor(.995 * (sizes.length - 1))] ?? 1;
		const limit = PROBABILITY_LIMITS.find((one) => most <= one) ?? 1;
		return {
			kind: "probability",
			limit,
			clipped: (sizes[sizes.length - 1] ?? 0) > limit
		};
	}
	function sorted(matrices) {
		const sizes = [];
		for (const matrix of matrices) for (const value of matrix.values) if (value !== null) sizes.push(Math.abs(value));
		return sizes.sort((a, b) => a - b);
	}
	/** Two digits, not smaller. Powers are multiplied up, because `Math.log10` is not the same everywhere. */
	function roundedUp(x) {
		if (!(x > 0)) return 0;
		let unit = 1;
		while (unit * 100 <= x) unit *= 10;
		while (unit * 10 > x && unit > 1e-12) unit /= 10;
		return Number((Math.ceil(x / unit - 1e-9) * unit).toPrecision(2));
	}
	// src/figures/svg.ts
	/** Two decimals at most, never -0: what a coordinate is written as. */
	function number(x) {
		const rounded = Math.round(x * 100) / 100;
		return String(rounded === 0 ? 0 : rounded);
	}
	/** What XML 1.0 may not hold, lone surrogates among it, is shown as the replacement character. */
	function escape(text) {
		return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "�").replace(/[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]/g, (found) => found.length === 2 ? found : "�").replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
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
	function moved(x, y, ...children) {
		return tag("g", { transform: `translate(${number(x)} ${number(y)})` }, ...children);
	}
	// src/figures/widths.ts
	var ASCII = [
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
	var BOLD = 1.12;
	/** From, to, width: the first that holds a character says; the rest is 64. */
	var RANGES = [
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
	function widthOf(code) {
		if (code >= 32 && code < 127) return ASCII[code - 32];
		for (const [first, last, width] of RANGES) if (code >= first && code <= last) return width;
		return 64;
	}
	/** The width of a text at a size, in the size's unit. */
	function measure(text, size, bold = false) {
		let hundredths = 0;
		for (const character of text) hundredths += widthOf(character.codePointAt(0));
		return hundredths * size * (bold ? BOLD : 1) / 100;
	}
	var FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Noto Sans', 'Liberation Sans', 'DejaVu Sans', sans-serif";
	/** Of the line above to the line below. */
	var LINE = 10.5;
	var RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
	function runsLeft(text) {
		return RIGHT_TO_LEFT.test(text);
	}
	/** A token inside a sentence: of a script that runs to the left, kept from turning what stands beside it. */
	function isolated(token) {
		return runsLeft(token) ? `\u2068${token}\u2069` : token;
	}
	/** A piece as one reads it: ▁ stands for the space before a word, and goes. */
	function shown(piece) {
		const bare = piece.replace(/^▁+/, "").replace(/▁/g, " ");
		return bare === "" ? "␣" : bare;
	}
	/** The text, or as much of it as fits, with … for the rest. Marks stay with their letters. */
	function cut(text, width, size = 8, bold = false) {
		if (measure(text, size, bold) <= width) return text;
		const letters = text.match(/\P{M}\p{M}*|\p{M}+/gu) ?? [];
		let kept = "";
		for (const letter of letters) {
			if (measure(`${kept}${letter}…`, size, bold) > width) break;
			kept += letter;
		}
		return `${kept}…`;
	}
	/** Lines no wider than `width`; a word that is wider stands alone and is cut. */
	function wrap(text, width, size = 8) {
		const lines = [];
		let current = "";
		for (const word of text.split(" ")) {
			const longer = current === "" ? word : `${current} ${word}`;
			if (current !== "" && measure(longer, size) > width) {
				lines.push(cut(current, width, size));
				current = word;
			} else current = longer;
		}
		return current === "" ? lines : [...lines, cut(current, width, size)];
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
	/** A sentence in which W_Q and the like have their index below. */
	function prose(x, y, content, style) {
		const size = style.size ?? 8;
		const small = {
			dy: SHIFT.sub * size,
			"font-size": size * SMALL
		};
		const back = -SHIFT.sub * size;
		let lowered = false;
		return element(x, y, style, content.split(/(\b[Wb]_[QKVO]\b)/u).map((part) => {
			const [letter, index] = /^[Wb]_[QKVO]$/u.test(part) ? part.split("_") : [part];
			const plain = letter === "" ? "" : lowered ? tag("tspan", { dy: back }, escape(letter)) : escape(letter);
			lowered = index !== void 0 || lowered && letter === "";
			return plain + (index === void 0 ? "" : tag("tspan", small, index));
		}).join(""));
	}
	/** "W_K^{12} X" as runs: one character or braces after _ and ^. */
	function runs(formula) {
		const found = [];
		for (const match of formula.matchAll(/([_^])(?:\{([^}]*)\}|(.))|([^_^]+)/gu)) if (match[4] !== void 0) found.push({
			level: "plain",
			text: match[4]
		});
		else found.push({
			level: match[1] === "_" ? "sub" : "super",
			text: match[2] ?? match[3] ?? ""
		});
		return found;
	}
	var SMALL = .72;
	var SHIFT = {
		plain: 0,
		sub: .22,
		super: -.38
	};
	/** A formula with indices: `formula(x, y, "W_K^1", ...)`. */
	function formula(x, y, content, style) {
		const size = style.size ?? 8;
		let at = 0;
		return element(x, y, style, runs(content).map((run) => {
			const shift = SHIFT[run.level] * size;
			const dy = shift - at;
			at = shift;
			return tag("tspan", {
				dy: dy === 0 ? void 0 : dy,
				"font-size": run.level === "plain" ? void 0 : size * SMALL
			}, escape(run.text));
		}).join(""));
	}
	function formulaWidth(content, size = 8, bold = false) {
		return runs(content).reduce((sum, run) => sum + measure(run.text, run.level === "plain" ? size : size * SMALL, bold), 0);
	}
	// src/figures/words.ts
	/** Three digits at most after the point, none that say nothing: 0.31, 2.1, 12. */
	function decimal(x) {
		const size = Math.abs(x);
		const written = size >= 100 ? x.toFixed(0) : size >= .01 || size === 0 ? x.toFixed(2) : x.toPrecision(2);
		return written.includes(".") && !written.includes("e") ? written.replace(/0+$/, "").replace(/\.$/, "") : written;
	}
	/** A probability: two digits after the point, more where they say something. */
	function probability(p) {
		if (p >= .9995) return p >= 1 ? "1.000" : "> 0.999";
		if (p < 5e-5) return p === 0 ? "0" : "< 0.0001";
		return p.toFixed(p < .01 ? 4 : p < .1 || p > .995 ? 3 : 2);
	}
	/** A token inside a sentence: signs and numbers stand in quotation marks, so that they are not read as its own. */
	function quoted(piece) {
		const token = shown(piece);
		return isolated(/\p{L}/u.test(token) ? token : `“${token}”`);
	}
	function placeName(place) {
		const kind = place.stack === "encoder" || place.kind === "self" ? "self-attention" : "cross-attention";
		return `${place.stack} layer ${place.layer}, ${kind}`;
	}
	function capitalised(sentence) {
		return sentence.charAt(0).toUpperCase() + sentence.slice(1);
	}
	function plural(count, word, many = `${word}s`) {
		return `${count} ${count === 1 ? word : many}`;
	}
	/** A position as a sentence speaks of it: a target position stands after one token and predicts the next. */
	function spoken(token) {
		if (token.after === void 0) return quoted(token.text);
		return `after ${quoted(token.after)}, predicting ${quoted(token.text)},`;
	}
	/** What a key is called: of the target, the token that stands there. */
	function keyName(token) {
		return quoted(token.after ?? token.text);
	}
	/** "animal 0.31, The 0.12 and tired 0.1": where a row looks most. */
	function strongest(weights, row, keys, count = 3) {
		const values = weights.values.slice(row * weights.cols, (row + 1) * weights.cols);
		const order = values.map((_, index) => index).filter((index) => values[index] !== null);
		order.sort((a, b) => values[b] - values[a] || a - b);
		const named = order.slice(0, count).filter((index, rank) => rank === 0 || values[index] >= .005).map((index) => `${keyName(keys[index])} ${probability(values[index])}`);
		return named.length < 2 ? named.join("") : `${named.slice(0, -1).join(", ")} and ${named[named.length - 1]}`;
	}
	/** Remarks under every picture of one attention, for comparison with the formula. */
	function remarksOn(data) {
		const remarks = ["Layers and heads are counted from 0."];
		if (data.positions === "rotary" && data.place.kind === "self") remarks.push("Q and K are shown after they were turned by their positions (rotary).");
		return remarks;
	}
	// src/figures/legend.ts
	var BAR$1 = 54;
	var GAP$3 = 14;
	var HEIGHT = 14;
	/** The items in as many lines as they need. */
	function legend(sheet) {
		let [x, y] = [0, 0];
		let body = "";
		for (const item of items(sheet)) {
			if (x > 0 && x + item.width > sheet.width) [x, y] = [0, y + HEIGHT];
			body += item.draw(x, y);
			x += item.width + GAP$3;
		}
		return {
			body,
			height: body === "" ? 0 : y + HEIGHT
		};
	}
	function items(sheet) {
		const found = [];
		if (sheet.signed) found.push(bar$1(sheet, {
			kind: "signed",
			limit: 1
		}, "−", "+", "value: below 0, 0, above 0"));
		if (sheet.probability !== null) found.push(bar$1(sheet, sheet.probability, "0", `${sheet.probability.clipped ? "≥ " : ""}${decimal(sheet.probability.limit)}`, "attention weight"));
		const { theme } = sheet;
		if (sheet.activations) found.push(swatch(sheet, "activation", { fill: theme.roles.none.fill }));
		if (sheet.weights) found.push(swatch(sheet, "weight", {
			fill: theme.mat,
			stroke: theme.roles.none.fill,
			"stroke-width": 1.1
		}));
		if (sheet.masked) found.push(swatch(sheet, "masked", {
			fill: `url(#${sheet.hatch})`,
			stroke: theme.faint,
			"stroke-width": .5
		}));
		if (sheet.missing) {
			const dashed = {
				fill: theme.mat,
				stroke: theme.quiet,
				"stroke-dasharray": "3 2",
				"stroke-width": 1
			};
			found.push(swatch(sheet, "numbers not saved with this trace", dashed));
		}
		return [...found, ...sheet.keys.map((key) => swatch(sheet, key.meaning, key.look))];
	}
	function bar$1(sheet, scale, low, high, meaning) {
		const style = { fill: sheet.theme.quiet };
		const before = measure(low, 8) + 3;
		const after = measure(high, 8) + 6;
		const colours = palette(scale, sheet.theme);
		const shades = 36;
		return {
			width: before + BAR$1 + 3 + after + measure(meaning, 8),
			draw: (x, y) => {
				const strips = Array.from({ length: shades }, (_, i) => {
					const fill = `rgb(${(colours[Math.round(i / 35 * (colours.length - 1))] ?? [
						0,
						0,
						0
					]).map(number).join(",")})`;
					return tag("rect", {
						x: x + before + i * BAR$1 / shades,
						y,
						width: 1.7,
						height: 8,
						fill
					});
				});
				return text(x, y + 7, low, style) + tag("g", { "shape-rendering": "crispEdges" }, ...strips) + text(x + before + BAR$1 + 3, y + 7, high, style) + text(x + before + BAR$1 + 3 + after, y + 7, meaning, style);
			}
		};
	}
	function swatch(sheet, meaning, look) {
		return {
			width: 16 + measure(meaning, 8),
			draw: (x, y) => tag("rect", {
				x: x + .5,
				y,
				width: 11,
				height: 8,
				rx: 1.5,
				...look
			}) + text(x + 16, y + 7, meaning, { fill: sheet.theme.quiet })
		};
	}
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
	/** The same two hues around a dark middle. */
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
	// src/figures/sheet.ts
	/** Points: 72 to an inch, so that 8 are 8 pt when the figure is printed at its own size. */
	var POINTS_PER_MM = 72 / 25.4;
	var Sheet = class {
		constructor(options, pictures, key) {
			this.pictures = pictures;
			this.key = key;
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
			this.keys = [];
			this.bins = /* @__PURE__ */ new Map();
			this.theme = options.dark ? DARK : LIGHT;
			this.millimetres = options.width ?? 178;
			this.width = this.millimetres * POINTS_PER_MM - 16;
			this.caption = options.caption ?? true;
		}
		get narrow() {
			return this.millimetres < 120;
		}
		get hatch() {
			return `hatch-${this.key}`;
		}
		note(sentence) {
			if (!this.notes.includes(sentence)) this.notes.push(sentence);
		}
		binned(count, what, together) {
			const found = this.bins.get(`${count} ${what}`) ?? [];
			if (!found.includes(together)) this.bins.set(`${count} ${what}`, [...found, together].sort((a, b) => a - b));
		}
		/** Every sentence that the caption needs beside the view's own. */
		remarks() {
			const binned = [...this.bins].map(([what, sizes]) => `${what}, ${sizes.join(" or ")} to a bin`);
			const bins = binned.length > 0 ? [`A bin shows its mean: ${binned.join("; ")}.`] : [];
			const scale = this.limits ? ["± is where the colours end; 99.5 % of the values lie within."] : [];
			return [
				...this.notes,
				...bins,
				...scale
			];
		}
	};
	// src/figures/page.ts
	var TITLE = 10;
	function descriptionOf(drawing, sheet) {
		return [...drawing.description, ...sheet.remarks()].join(" ");
	}
	function page(drawing, sheet) {
		const { theme } = sheet;
		const description = descriptionOf(drawing, sheet);
		const title = wrap(drawing.title, sheet.width / 1.12, TITLE);
		let y = 0;
		let body = "";
		for (const line of title) {
			y += 12;
			body += prose(0, y - 3, line, {
				fill: theme.text,
				size: TITLE,
				bold: true
			});
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
		return file(sheet, y + 16, drawing.title, description, body);
	}
	function file(sheet, height, title, description, body) {
		const width = sheet.width + 16;
		const { theme } = sheet;
		return tag("svg", {
			xmlns: "http://www.w3.org/2000/svg",
			width: `${number(sheet.millimetres)}mm`,
			height: `${number(height / POINTS_PER_MM)}mm`,
			viewBox: `0 0 ${number(width)} ${number(height)}`,
			"font-family": FONT,
			"font-size": 8,
			role: "img",
			"aria-labelledby": `title-${sheet.key} desc-${sheet.key}`
		}, `\n<title id="title-${sheet.key}">${escape(title)}</title>`, `\n<desc id="desc-${sheet.key}">${escape(description)}</desc>\n`, sheet.hatches ? `${hatching(sheet)}\n` : "", tag("rect", {
			width,
			height,
			fill: theme.ground
		}), `\n${moved(8, 8, body).replace(/<(?=text|g |image)/g, "\n<")}\n`) + "\n";
	}
	/** Thin lines to the upper right: no colour of any scale. */
	function hatching(sheet) {
		const { theme } = sheet;
		const lines = tag("path", {
			d: "M-1 1L1 -1M0 4L4 0M3 5L5 3",
			stroke: theme.quiet,
			"stroke-width": .6
		});
		const ground = tag("rect", {
			width: 4,
			height: 4,
			fill: theme.ground
		});
		return tag("defs", {}, tag("pattern", {
			id: sheet.hatch,
			width: 4,
			height: 4,
			patternUnits: "userSpaceOnUse"
		}, ground, lines));
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
	var LARGEST_BLOCK = 65535;
	var CRC = Array.from({ length: 256 }, (_, n) => {
		let c = n;
		for (let bit = 0; bit < 8; bit++) c = c & 1 ? 3988292384 ^ c >>> 1 : c >>> 1;
		return c >>> 0;
	});
	function crc(bytes) {
		let c = 4294967295;
		for (const byte of bytes) c = CRC[(c ^ byte) & 255] ^ c >>> 8;
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
	function big(x) {
		return [
			x >>> 24 & 255,
			x >>> 16 & 255,
			x >>> 8 & 255,
			x & 255
		];
	}
	function chunk(name, body) {
		const named = [...name].map((letter) => letter.charCodeAt(0)).concat(body);
		return big(body.length).concat(named, big(crc(named)));
	}
	/** zlib's format with stored blocks. */
	function stored(bytes) {
		const blocks = [120, 1];
		for (let start = 0; start < bytes.length || start === 0; start += LARGEST_BLOCK) {
			const block = bytes.slice(start, start + LARGEST_BLOCK);
			const last = start + LARGEST_BLOCK >= bytes.length ? 1 : 0;
			blocks.push(last, block.length & 255, block.length >> 8, ~block.length & 255, ~block.length >> 8 & 255);
			for (const byte of block) blocks.push(byte);
		}
		return blocks.concat(big(adler(bytes)));
	}
	/** Cells row by row, each the number of its colour. Transparent where it is `clear`. */
	function png(width, height, cells, colours, clear) {
		const scanlines = [];
		for (let row = 0; row < height; row++) {
			scanlines.push(0);
			for (let col = 0; col < width; col++) scanlines.push(cells[row * width + col]);
		}
		const table = [];
		for (const colour of colours) table.push(...colour);
		const opacity = colours.map((_, index) => index === clear ? 0 : 255);
		return SIGNATURE.concat(chunk("IHDR", [
			...big(width),
			...big(height),
			8,
			3,
			0,
			0,
			0
		]), chunk("PLTE", table), chunk("tRNS", opacity), chunk("IDAT", stored(scanlines)), chunk("IEND", []));
	}
	var LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	function base64(bytes) {
		let written = "";
		for (let i = 0; i < bytes.length; i += 3) {
			const [a, b, c] = [
				bytes[i],
				bytes[i + 1],
				bytes[i + 2]
			];
			const three = a << 16 | (b ?? 0) << 8 | (c ?? 0);
			written += LETTERS.charAt(three >> 18) + LETTERS.charAt(three >> 12 & 63);
			written += b === void 0 ? "=" : LETTERS.charAt(three >> 6 & 63);
			written += c === void 0 ? "=" : LETTERS.charAt(three & 63);
		}
		return written;
	}
	// src/figures/cells.ts
	/** The narrowest cell that is drawn, in points; narrower ones share a bin. */
	var NARROWEST = 1.2;
	/** Rows and columns put together so that no cell is narrower than can be seen; the mean stands for them. */
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
	/** A matrix as it can be drawn in so much room; says in the caption what was put together. */
	function fitted(sheet, given, width, height, narrowest = NARROWEST) {
		const matrix = held(given);
		const perCol = even(matrix.cols, matrix.cols * narrowest / width);
		const perRow = even(matrix.rows, matrix.rows * narrowest * .5 / height);
		const [cols, rows] = [perCol * (given.perCol ?? 1), perRow * (given.perRow ?? 1)];
		if (cols > 1) sheet.binned(given.cols, "columns", cols);
		if (rows > 1) sheet.binned(given.rows, "rows", rows);
		return binned(matrix, perRow, perCol);
	}
	/** How many go together where at least so many must: a number that leaves no smaller bin at the end, if one is near. */
	function even(count, least) {
		const needed = Math.max(1, Math.ceil(least - 1e-9));
		for (let size = needed; size <= needed * 1.6; size++) if (count % size === 0) return size;
		return needed;
	}
	/** The values that are there, which may be means already. */
	function held(matrix) {
		const [rows, cols] = [Math.ceil(matrix.rows / (matrix.perRow ?? 1)), Math.ceil(matrix.cols / (matrix.perCol ?? 1))];
		return {
			rows,
			cols,
			values: matrix.values
		};
	}
	/** The cells of a matrix in a box. What is masked is hatched. */
	function cells(sheet, matrix, box, scale) {
		sheet.cells += matrix.values.length;
		if (scale.kind === "signed") sheet.signed = true;
		else sheet.probability = scale;
		return (sheet.pictures ? picture(sheet, matrix, box, scale) : rectangles(sheet, matrix, box, scale)) + hatched(sheet, matrix, box);
	}
	/** Rectangles of one colour are one path: a third of the bytes. */
	function rectangles(sheet, matrix, box, scale) {
		if (sheet.cells > 2500) return "";
		const width = box.width / matrix.cols;
		const height = box.height / matrix.rows;
		const size = `h${number(width)}v${number(height)}h${number(-width)}z`;
		const paths = /* @__PURE__ */ new Map();
		matrix.values.forEach((value, index) => {
			if (value === null) return;
			const fill = colour(value, scale, sheet.theme);
			const x = number(box.x + index % matrix.cols * width);
			const y = number(box.y + Math.floor(index / matrix.cols) * height);
			paths.set(fill, `${paths.get(fill) ?? ""}M${x} ${y}${size}`);
		});
		return tag("g", { "shape-rendering": "crispEdges" }, ...[...paths].map(([fill, d]) => tag("path", {
			d,
			fill
		})));
	}
	function picture(sheet, matrix, box, scale) {
		const every = palette(scale, sheet.theme);
		const places = /* @__PURE__ */ new Map();
		const used = [[
			0,
			0,
			0
		]];
		const bytes = matrix.values.map((value) => {
			if (value === null) return 0;
			const shade = step(value, scale);
			if (!places.has(shade)) {
				places.set(shade, used.length);
				used.push(every[shade]);
			}
			return places.get(shade);
		});
		return tag("image", {
			...box,
			href: `data:image/png;base64,${base64(png(matrix.cols, matrix.rows, bytes, used, 0))}`,
			"image-rendering": "optimizeSpeed",
			preserveAspectRatio: "none",
			style: "image-rendering:pixelated"
		});
	}
	/** Runs of masked cells, hatched, row by row. */
	function hatched(sheet, matrix, box) {
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
					sheet.masked = sheet.hatches = true;
				} else col++;
			}
		}
		return drawn === "" ? "" : tag("g", { fill: `url(#${sheet.hatch})` }, drawn);
	}
	// src/figures/labels.ts
	var ROW_PITCH = 8.8;
	var COLUMN_PITCH = 10.2;
	var ARROW = 10;
	var SINE = .7071;
	/** Which labels are written where positions lie so close: every n-th; above 40 tokens at least every second. */
	function every(count, pitch, needed) {
		const fits = Math.max(1, Math.ceil(needed / pitch - 1e-6));
		return count > 40 ? Math.max(2, fits) : fits;
	}
	function widest(texts, cap) {
		return Math.min(cap, Math.max(0, ...texts.map((one) => measure(one, 8))));
	}
	/** The room that row labels take: of the target two columns, what went in and what is predicted. */
	var RowLabels = class {
		constructor(sheet, tokens, cap = sheet.narrow ? 34 : 54) {
			this.sheet = sheet;
			this.tokens = tokens;
			const before = tokens.map((token) => token.after).filter((token) => token !== void 0);
			this.after = widest(before.map(shown), cap);
			this.own = widest(tokens.map((token) => shown(token.text)), cap);
			this.width = this.own + (this.after > 0 ? this.after + ARROW : 0) + 4;
		}
		/** Beside rows that begin at y, left of `right`. */
		draw(right, y, pitch, marked = null) {
			const skip = every(this.tokens.length, pitch, ROW_PITCH);
			return this.tokens.map((token, row) => {
				const near = marked !== null && row !== marked && Math.abs(row - marked) * pitch < ROW_PITCH;
				if (row !== marked && (row % skip !== 0 || near)) return "";
				return this.one(token, right - 4, y + (row + .5) * pitch + 2.8, row === marked);
			}).join("");
		}
		/** What the two columns of the target are, in as many words as fit. */
		heading(right, top, pitch) {
			const fitting = ["after → predicting", "after → next"].find((words) => measure(words, 8) <= right - 4);
			if (this.after === 0 || fitting === void 0) return "";
			const y = top - Math.max(4, 8.5 - pitch / 2);
			return text(right - 4, y, fitting, {
				fill: this.sheet.theme.quiet,
				anchor: "end"
			});
		}
		one(token, right, y, bold) {
			const { theme } = this.sheet;
			const fill = bold ? theme.accent : theme.text;
			const own = cut(shown(token.text), this.own + .01, 8);
			if (token.after === void 0) return text(right, y, own, {
				fill,
				bold,
				anchor: "end"
			});
			const left = right - this.own;
			return text(left - ARROW, y, cut(shown(token.after), this.after + .01, 8), {
				fill: bold ? fill : theme.quiet,
				anchor: "end"
			}) + text(left - ARROW / 2, y, "→", {
				fill: theme.quiet,
				anchor: "middle"
			}) + text(left, y, own, {
				fill,
				bold
			});
		}
	};
	/** Slanted labels above columns. */
	var ColumnLabels = class {
		constructor(sheet, texts, cap = 58) {
			this.sheet = sheet;
			this.texts = texts;
			this.longest = widest(texts, cap);
			this.height = this.longest * SINE + 8;
			this.overhang = this.longest * SINE + 2;
		}
		/** Above columns that begin at x; `bottom` is where the matrix begins. */
		draw(x, bottom, pitch, marked = null) {
			const skip = every(this.texts.length, pitch, COLUMN_PITCH);
			return this.texts.map((one, col) => {
				if (col % skip !== 0) return "";
				const fill = col === marked ? this.sheet.theme.accent : this.sheet.theme.text;
				const label = cut(one, this.longest + .01);
				return text(x + (col + .5) * pitch + 2, bottom - 3, label, {
					fill,
					rotate: -45
				});
			}).join("");
		}
	};
	/** How tall rows are: room for a label each while they are few; else a fixed height for all. */
	function rowPitch(count, full, tallest = 9) {
		return Math.min(tallest, full / count);
	}
	// src/figures/views/attention.ts
	var GAP$2 = 16;
	var HEADING$1 = 12;
	function attention(given, sheet) {
		const data = asRead(given, sheet);
		const weights = data.weights ?? [];
		const chosen = data.head === null ? weights : [weights[data.head]];
		const scale = probabilityScale(chosen);
		for (const remark of remarksOn(data)) sheet.note(remark);
		const panels = data.head === null ? many(data, chosen, scale, sheet) : one(data, chosen[0], scale, sheet);
		const place = capitalised(placeName(data.place));
		return {
			title: data.head === null ? `${place}: ${chosen.length} heads` : `${place}, head ${data.head}`,
			description: sentences$5(data, chosen),
			...panels
		};
	}
	/** Keys of a script that runs to the left stand from right to left, as the text does. */
	function asRead(data, sheet) {
		if (data.keys.filter((token) => runsLeft(token.after ?? token.text)).length * 2 <= data.keys.length) return data;
		sheet.note("The columns run from right to left, as the text does.");
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
		const rows = data.token === null ? clearest(data, chosen) : [[0, data.token]];
		if (data.head !== null) {
			const [, row] = rows[0] ?? [0, 0];
			return [`Head ${data.head} of ${placeName(data.place)}: ${looks(data, chosen[0], row)}.`];
		}
		const said = chosen.map((matrix, head) => {
			return `head ${head}: ${looks(data, matrix, data.token ?? clearest(data, [matrix])[0]?.[1])}`;
		});
		const few = said.slice(0, 4);
		const more = said.length > few.length ? `; and ${said.length - few.length} more heads` : "";
		return [`${capitalised(placeName(data.place))}. ${capitalised(few.join("; "))}${more}.`];
	}
	function looks(data, matrix, row) {
		return `${spoken(data.queries[row])} looks most at ${strongest(matrix, row, data.keys)}`;
	}
	/** The word of each head that looks most sharply at one place other than its own. */
	function clearest(data, chosen) {
		return chosen.map((matrix, head) => {
			let [best, found] = [-1, 0];
			matrix.values.forEach((value, index) => {
				const [row, col] = [Math.floor(index / matrix.cols), index % matrix.cols];
				const itself = data.place.kind === "self" && row === col;
				const word = /\p{L}/u.test(data.queries[row]?.text ?? "") && !/^<.+>$/.test(data.queries[row]?.text ?? "");
				if (value !== null && !itself && word && value > best) [best, found] = [value, row];
			});
			return [head, found];
		});
	}
	function one(data, matrix, scale, sheet) {
		const rows = new RowLabels(sheet, data.queries, sheet.narrow ? 40 : 64);
		const columns = new ColumnLabels(sheet, data.keys.map((token) => shown(token.after ?? token.text)));
		const room = sheet.width - rows.width - columns.overhang;
		const pitch = Math.min(24, room / matrix.cols);
		const height = Math.min(pitch, 15);
		const down = matrix.rows > 30 ? Math.min(height, 560 / matrix.rows) : height;
		const top = columns.height + 2;
		const box = {
			x: rows.width,
			y: top,
			width: pitch * matrix.cols,
			height: down * matrix.rows
		};
		return {
			body: cells(sheet, fitted(sheet, matrix, box.width, box.height), box, scale) + frame$1(sheet, box) + (pitch >= 20 && down >= 9 ? numbers(matrix, box, scale, sheet) : "") + marked(sheet, data.token, box, matrix.rows) + rows.draw(rows.width, top, down, data.token) + rows.heading(rows.width, top, down) + columns.draw(rows.width, top, pitch),
			height: top + box.height
		};
	}
	/** The larger weights as numbers, where cells are large enough to hold them. */
	function numbers(matrix, box, scale, sheet) {
		sheet.note("Weights of 0.05 and more are written out.");
		const [width, height] = [box.width / matrix.cols, box.height / matrix.rows];
		return matrix.values.map((value, index) => {
			if (value === null || value < .05) return "";
			const x = box.x + (index % matrix.cols + .5) * width;
			const y = box.y + (Math.floor(index / matrix.cols) + .5) * height + 2.8;
			const fill = readableOn(colour(value, scale, sheet.theme));
			return text(x, y, value > .995 ? "1" : value.toFixed(2).slice(1), {
				fill,
				anchor: "middle"
			});
		}).join("");
	}
	function frame$1(sheet, box) {
		return tag("rect", {
			...box,
			fill: "none",
			stroke: sheet.theme.quiet,
			"stroke-width": .6
		});
	}
	function marked(sheet, row, box, rows) {
		if (row === null) return "";
		const height = box.height / rows;
		return tag("rect", {
			x: box.x - 1,
			y: box.y + row * height - .6,
			width: box.width + 2,
			height: height + 1.2,
			fill: "none",
			stroke: sheet.theme.accent,
			"stroke-width": 1.4
		});
	}
	/** As many beside each other as leave every label its room; long sentences are drawn small. */
	function perLine(room, count, positions) {
		const roomy = Math.floor((room + GAP$2) / (Math.max(40, positions * 9) + GAP$2));
		return Math.min(count, Math.max(count <= 2 ? count : count <= 4 ? 2 : count <= 9 ? 3 : 4, Math.min(roomy, 6)));
	}
	function many(data, panels, scale, sheet) {
		const rows = new RowLabels(sheet, data.queries, sheet.narrow ? 30 : 50);
		const columns = new ColumnLabels(sheet, data.keys.map((token) => shown(token.after ?? token.text)), 46);
		const room = sheet.width - rows.width - columns.overhang;
		const across = perLine(room, panels.length, data.keys.length);
		const width = Math.min(220, (room - (across - 1) * GAP$2) / across);
		const pitch = width / data.keys.length;
		const down = Math.min(Math.max(pitch, 2), 12);
		const height = down * data.queries.length;
		let body = "";
		let y = 0;
		for (let first = 0; first < panels.length; first += across) {
			y += HEADING$1 + columns.height;
			body += rows.draw(rows.width, y, down, data.token) + rows.heading(rows.width, y, down);
			panels.slice(first, first + across).forEach((matrix, place) => {
				const box = {
					x: rows.width + place * (width + GAP$2),
					y,
					width,
					height
				};
				body += text(box.x, y - columns.height - 2, `head ${first + place}`, {
					fill: sheet.theme.text,
					bold: true
				});
				body += cells(sheet, fitted(sheet, matrix, width, height), box, scale) + frame$1(sheet, box);
				body += marked(sheet, data.token, box, matrix.rows) + columns.draw(box.x, y, pitch);
			});
			y += height + 8;
		}
		return {
			body,
			height: y - 8
		};
	}
	// src/figures/views/beam.ts
	var ROW$1 = 15;
	var BOX = 11;
	var LEAST = 17;
	/** A dropped token is named where it was at least so likely; the others are counted. */
	var NAMED = .05;
	function beam(data, sheet) {
		const runs = layout(data);
		const grown = data.nodes.filter((one) => one.fate !== "outranked" && one.fate !== "displaced" && one.fate !== "start");
		const dropped = data.nodes.length - 1 - grown.length;
		const { theme } = sheet;
		sheet.keys.push({
			meaning: "best",
			look: {
				fill: theme.ground,
				stroke: theme.accent,
				"stroke-width": 1.8
			}
		}, {
			meaning: "kept",
			look: {
				fill: theme.ground,
				stroke: theme.quiet,
				"stroke-width": .8
			}
		}, {
			meaning: "still growing at the end",
			look: {
				fill: theme.ground,
				stroke: theme.quiet,
				"stroke-width": .8,
				"stroke-dasharray": "2 1.5"
			}
		});
		sheet.note("A double frame has ended, with its rank and score; grey words were dropped, with their probability.");
		sheet.note(`Dropped tokens of ${NAMED} and more are named, the others counted (+n).`);
		return {
			title: `Beam search of width ${data.size}`,
			description: sentences$4(data, grown.length, dropped),
			...bands(data, runs, sheet)
		};
	}
	function sentences$4(data, grown, dropped) {
		const best = data.ended[0];
		const told = `${plural(data.nodes.length - 1, "hypothesis", "hypotheses")} looked at: ${grown} gone on with or ended, ${dropped} dropped.`;
		if (best === void 0) return [told];
		const second = data.ended[1];
		const margin = second === void 0 ? "" : `; the second has ${decimal(data.nodes[second].score)}`;
		return [
			told,
			`The best of ${data.ended.length} that ended, with score ${decimal(data.nodes[best].score)}${margin}:`,
			`${firstWords(wordsOf(data, pathOf(data, best)))}.`
		];
	}
	/** So many that a caption can hold them. */
	function firstWords(words) {
		const parts = words.split(" ");
		return parts.length <= 40 ? words : `${parts.slice(0, 40).join(" ")} …`;
	}
	function pathOf(data, node) {
		const way = [];
		for (let at = node; at > 0; at = data.nodes[at].parent) way.push(at);
		return way.reverse();
	}
	function isGrown(node) {
		return node.fate === "kept" || node.fate === "ended" || node.fate === "abandoned";
	}
	/** Runs with their rows: a first child goes straight on, the others below; the best path comes first. */
	function layout(data, drawn = isGrown) {
		const children = data.nodes.map(() => []);
		data.nodes.forEach((node, number) => {
			if (node.parent >= 0 && drawn(node, number)) children[node.parent].push(number);
		});
		const best = new Set(data.ended[0] === void 0 ? [] : pathOf(data, data.ended[0]));
		const depth = [];
		data.nodes.forEach((node, number) => depth.push(number === 0 ? 0 : depth[node.parent] + 1));
		for (const list of children) list.sort((a, b) => Number(best.has(b)) - Number(best.has(a)) || a - b);
		const runs = [];
		let rows = 0;
		const waiting = [];
		const first = children[0] ?? [];
		for (const node of [...first].reverse()) waiting.push({
			node,
			parent: null,
			row: null
		});
		while (waiting.length > 0) {
			const { node, parent, row } = waiting.pop();
			const nodes = [node];
			let last = node;
			while (children[last].length === 1 && best.has(children[last][0]) === best.has(node) && isGrown(data.nodes[children[last][0]])) {
				last = children[last][0];
				nodes.push(last);
			}
			const own = row ?? rows++;
			const run = {
				nodes,
				from: depth[node],
				to: depth[last],
				parent,
				row: own,
				best: best.has(node)
			};
			runs.push(run);
			const next = children[last];
			for (let i = next.length - 1; i >= 0; i--) waiting.push({
				node: next[i],
				parent: run,
				row: i === 0 ? own : null
			});
		}
		return runs;
	}
	var LEFT = 22;
	/** The room that each step needs: first for boxes of one token, then for the longer ones of the best path. */
	function needs(data, runs, deepest) {
		const widths = Array.from({ length: deepest + 1 }, () => LEAST);
		const asked = runs.filter((run) => run.nodes.length <= 2 || run.best).sort((a, b) => a.nodes.length - b.nodes.length);
		for (const run of asked) {
			const wanted = Math.min(measure(wordsOf(data, run.nodes), 8, run.best) + 11, 70 * run.nodes.length);
			const there = widths.slice(run.from, run.to + 1).reduce((sum, one) => sum + one, 0);
			const more = Math.max(0, wanted - there) / run.nodes.length;
			for (let at = run.from; at <= run.to; at++) widths[at] = widths[at] + more;
		}
		return widths;
	}
	function wordsOf(data, nodes) {
		return nodes.map((node) => isolated(shown(data.nodes[node].text))).join(" ");
	}
	/** Bands end where a run of the best path does, if one ends there at all. */
	function bandsOf(widths, runs, room) {
		const ends = new Set(runs.filter((run) => run.best).map((run) => run.to));
		const total = widths.slice(1).reduce((a, b) => a + b, 0);
		if (total > room && total <= room * 1.15) return bandsOf(widths.map((one) => one * room / total - 1e-6), runs, room);
		const found = [];
		let start = 1;
		while (start < widths.length) {
			let end = start;
			let sum = widths[start];
			while (end + 1 < widths.length && sum + widths[end + 1] <= room) sum += widths[++end];
			const whole = Array.from({ length: end - start }, (_, back) => end - back).find((at) => ends.has(at));
			if (end + 1 < widths.length && whole !== void 0) end = whole;
			sum = widths.slice(start, end + 1).reduce((a, b) => a + b, 0);
			const spare = end + 1 === widths.length && found.length > 0 ? 0 : (room - sum) / (end - start + 1);
			const width = widths.slice(start, end + 1).map((one) => one + Math.max(0, spare));
			const x = width.map((_, place) => LEFT + width.slice(0, place).reduce((a, b) => a + b, 0));
			found.push({
				start,
				end,
				x,
				width
			});
			start = end + 1;
		}
		return found;
	}
	/** So many steps beside each other as leave a token its room; the later ones in bands below. */
	function bands(data, runs, sheet) {
		const deepest = Math.max(1, ...runs.map((run) => run.to));
		const right = 46;
		let y = 0;
		let body = "";
		for (const band of bandsOf(needs(data, runs, deepest), runs, sheet.width - LEFT - right)) {
			const inside = runs.filter((run) => run.to >= band.start && run.from <= band.end);
			const rows = [...new Set(inside.map((run) => run.row))].sort((a, b) => a - b);
			const places = new Map(rows.map((row, place) => [row, place]));
			y += 12;
			band.x.forEach((x, place) => {
				const middle = x + band.width[place] / 2;
				body += text(middle, y - 3, String(band.start + place - 1), {
					fill: sheet.theme.quiet,
					anchor: "middle"
				});
			});
			if (band.start === 1) body += text(0, y + 10.5, cut(shown(data.nodes[0].text), 18), { fill: sheet.theme.quiet });
			const lineOf = (row) => {
				const place = places.get(row);
				return place === void 0 ? void 0 : y + place * ROW$1 + ROW$1 / 2;
			};
			body += inside.map((run) => edge(run, band, lineOf, sheet)).join("");
			body += inside.map((run) => box(data, run, band, lineOf(run.row), sheet)).join("");
			y += rows.length * ROW$1 + 8;
		}
		return {
			body,
			height: y - 8
		};
	}
	/** From the end of the run before down to this one; a stub where that stands in the band above. */
	function edge(run, band, lineOf, sheet) {
		const look = {
			fill: "none",
			stroke: run.best ? sheet.theme.accent : sheet.theme.quiet,
			"stroke-width": run.best ? 2 : .8
		};
		const line = number(lineOf(run.row));
		const x = band.x[Math.max(run.from, band.start) - band.start];
		const from = run.parent === null ? lineOf(0) : lineOf(run.parent.row);
		if (run.from < band.start || from === void 0) return tag("path", {
			...look,
			d: `M${number(x - 9)} ${line}H${number(x + 2)}`,
			"stroke-dasharray": "2 2"
		});
		return tag("path", {
			...look,
			d: `M${number(x - 3)} ${number(from)}V${line}H${number(x + 2)}`
		});
	}
	function box(data, run, band, line, sheet) {
		const { theme } = sheet;
		const [from, to] = [Math.max(run.from, band.start), Math.min(run.to, band.end)];
		const nodes = run.nodes.slice(from - run.from, to - run.from + 1);
		const x = band.x[from - band.start] + 2;
		const width = band.x[to - band.start] + band.width[to - band.start] - 5 - x;
		const last = data.nodes[nodes[nodes.length - 1]];
		const stays = to === run.to;
		const stroke = run.best ? theme.accent : theme.quiet;
		const frame = {
			x,
			y: line - BOX / 2,
			width,
			height: BOX,
			rx: 2.5,
			fill: theme.ground,
			stroke
		};
		const dashed = stays && last.fate === "abandoned" ? "2 1.5" : void 0;
		let body = tag("rect", {
			...frame,
			"stroke-width": run.best ? 1.4 : .7,
			"stroke-dasharray": dashed
		});
		if (stays && last.fate === "ended") {
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
		const words = wordsOf(data, nodes);
		const fill = run.best ? theme.accent : theme.text;
		body += text(x + width / 2, line + 2.9, cut(words, width - 3, 8, run.best), {
			fill,
			bold: run.best,
			anchor: "middle"
		});
		return stays ? body + beside(data, run, last, x + width + 4, line, sheet) : body;
	}
	/** What stands behind a run: its rank and score where it ended, what was dropped where it did not. */
	function beside(data, run, last, x, line, sheet) {
		const room = Math.min(150, sheet.width - x);
		const node = run.nodes[run.nodes.length - 1];
		const fill = run.best ? sheet.theme.accent : sheet.theme.quiet;
		if (last.fate === "ended") {
			const label = `${ordinal(data.ended.indexOf(node) + 1)} ${decimal(last.score).replace("-", "−")}`;
			return text(x, line + 2.9, label, {
				fill,
				bold: run.best,
				halo: sheet.theme.ground
			});
		}
		if (data.nodes.some((other) => other.parent === node && isGrown(other))) return "";
		const dropped = data.nodes.filter((other) => other.parent === node && !isGrown(other));
		if (last.fate === "abandoned") return text(x, line + 2.9, cut("growing", room), {
			fill,
			halo: sheet.theme.ground
		});
		const shownNames = dropped.filter((other) => other.probability >= NAMED).slice(0, 2).map((other) => `${isolated(shown(other.text))} ${probability(other.probability)}`);
		const rest = dropped.length - shownNames.length;
		const parts = [...shownNames, ...rest > 0 ? [`+${rest}`] : []];
		return text(x, line + 2.9, cut(parts.join(", "), room), {
			fill: sheet.theme.quiet,
			halo: sheet.theme.ground
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
	/** One scale for matrices that are compared, of those whose numbers are there, in bins as they are drawn. */
	function commonScale(sheet, matrices, width, height) {
		return signedScale(matrices.filter(hasCells).map((one) => fitted(sheet, one, width, height)));
	}
	/** The matrix with what is written around it; the box is that of its cells. */
	function drawMatrix(sheet, matrix, box, style) {
		const middle = box.x + box.width / 2;
		const sizes = style.sizes ?? "around";
		const away = 3;
		const quiet = {
			fill: sheet.theme.quiet,
			anchor: "middle"
		};
		const shape = `${matrix.rows} × ${matrix.cols}`;
		const around = (sizes === "around" ? text(middle, box.y - 3.5 - away, shape, quiet) : "") + chip(sheet, middle, box.y - away - (sizes === "around" ? 13.5 : 4), style);
		if (!hasCells(matrix)) {
			sheet.missing = true;
			return around + empty(sheet, box, style);
		}
		const drawn = fitted(sheet, matrix, box.width, box.height);
		const scale = style.scale ?? signedScale([drawn]);
		const limit = scale.kind === "signed" ? `±${decimal(scale.limit)}` : "";
		const below = {
			around: limit,
			below: [shape, limit].filter((part) => part !== "").join(", "),
			none: ""
		}[sizes];
		if (below.includes("±")) sheet.limits = true;
		return around + tag("g", style.pale ? { opacity: "0.4" } : {}, mat(sheet, box, style), cells(sheet, drawn, box, scale)) + frame(sheet, box, style) + (below === "" ? "" : text(middle, box.y + box.height + 8.5 + away, below, quiet));
	}
	/** The grey behind weights. */
	function mat(sheet, box, style) {
		if (style.kind === "activation") {
			sheet.activations = true;
			return "";
		}
		sheet.weights = true;
		return tag("rect", {
			...grown(box, 2.5),
			fill: sheet.theme.mat
		});
	}
	function frame(sheet, box, style) {
		const stroke = style.pale ? sheet.theme.quiet : sheet.theme.roles[style.role].fill;
		const around = style.kind === "weight" ? grown(box, 2.5) : grown(box, .4);
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
	function empty(sheet, box, style) {
		const stroke = sheet.theme.roles[style.role].fill;
		return tag("rect", {
			...grown(box, 2.5),
			fill: sheet.theme.mat,
			stroke,
			"stroke-dasharray": "3 2",
			"stroke-width": 1.1
		});
	}
	function grown(box, by) {
		return {
			x: box.x - by,
			y: box.y - by,
			width: box.width + 2 * by,
			height: box.height + 2 * by
		};
	}
	/** The letter of a matrix: filled for activations, outlined for weights. `y` is the text's ground line. */
	function chip(sheet, middle, y, style) {
		if (style.label === "") return "";
		const ink = sheet.theme.roles[style.role];
		const width = formulaWidth(style.label, 8, true) + 6;
		const box = {
			x: middle - width / 2,
			y: y - 7.8,
			width,
			height: 10.6,
			rx: 2
		};
		const filled = style.kind === "activation" && !style.pale;
		const stroke = style.pale ? sheet.theme.quiet : ink.fill;
		const ground = filled ? tag("rect", {
			...box,
			fill: ink.fill
		}) : tag("rect", {
			...box,
			fill: sheet.theme.mat,
			stroke,
			"stroke-width": .8
		});
		const fill = filled ? ink.onFill : style.pale ? sheet.theme.quiet : ink.text;
		return ground + formula(middle, y, style.label, {
			fill,
			bold: true,
			anchor: "middle"
		});
	}
	// src/figures/views/qkv.ts
	var SIGN$2 = 26;
	var GAP$1 = 16;
	/** Room for the formula behind each line. */
	var ASIDE = 122;
	function qkv(data, sheet) {
		const head = data.head ?? 0;
		for (const remark of remarksOn(data)) sheet.note(remark);
		const lines = linesOf(data, head);
		let y = 0;
		let body = "";
		const left = Math.max(...lines.map((one) => new RowLabels(sheet, one.tokens).width));
		for (const one of lines) {
			const drawn = drawLine(one, data, head, left, y, sheet);
			body += drawn.body;
			y = drawn.bottom + 12;
		}
		return {
			title: `${capitalised(placeName(data.place))}, head ${head}: from X to Q, K and V`,
			description: sentences$3(data, head),
			body,
			height: y - 12
		};
	}
	function linesOf(data, head) {
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
				made: data.q?.[head]
			},
			{
				letter: "K",
				role: "k",
				...keys,
				weight: data.wk?.[head],
				made: data.k?.[head]
			},
			{
				letter: "V",
				role: "v",
				...keys,
				weight: data.wv?.[head],
				made: data.v?.[head]
			}
		];
	}
	function sentences$3(data, head) {
		const [rows, width] = [data.queries.length, data.input?.cols ?? 0];
		const columns = data.q?.[0]?.cols ?? 0;
		const source = data.place.kind === "cross" ? `K and V are made from the encoder’s output (memory, ${data.keys.length} × ${width}) with this layer’s W_K and W_V.` : `Every row of X is a token; Q, K and V are made from the same X.`;
		return [
			`Head ${head} of ${placeName(data.place)}:`,
			`X (${rows} × ${width}) × W_Q (${width} × ${columns}) = Q (${rows} × ${columns}).`,
			source
		];
	}
	function drawLine(one, data, head, left, y, sheet) {
		const labels = new RowLabels(sheet, one.tokens);
		const pitch = rowPitch(one.from.rows, 180);
		const height = pitch * one.from.rows;
		const room = sheet.width - left - 52 - (sheet.narrow ? 0 : ASIDE);
		const wide = Math.min(Math.max(height, 96), sheet.narrow ? 100 : 140, room * .55);
		const narrow = Math.min(64, room * .22, Math.max(24, one.made.cols * 4));
		const lane = Math.max(height, wide);
		const top = y + 27;
		const middle = top + lane / 2;
		const bias = data.linearBias ? ` + b_${one.letter}` : "";
		const turned = data.positions === "rotary" && data.place.kind === "self" && one.letter !== "V";
		let x = left;
		const rowsTop = middle - height / 2;
		let body = labels.draw(x, rowsTop, pitch, one.letter === "Q" || data.place.kind === "self" ? data.token : null);
		body += labels.heading(x, rowsTop, pitch);
		body += drawMatrix(sheet, one.from, {
			x,
			y: rowsTop,
			width: wide,
			height
		}, {
			role: one.fromRole,
			kind: "activation",
			label: one.fromLabel
		});
		x += wide;
		body += sign(sheet, x + SIGN$2 / 2, middle, "×");
		x += SIGN$2;
		const box = {
			x,
			y: middle - wide / 2,
			width: narrow,
			height: wide
		};
		body += drawMatrix(sheet, one.weight, box, {
			role: one.role,
			kind: "weight",
			label: `W_${one.letter}^{${head}}`
		});
		x += narrow;
		body += sign(sheet, x + SIGN$2 / 2, middle, "=");
		x += SIGN$2;
		body += drawMatrix(sheet, one.made, {
			x,
			y: rowsTop,
			width: narrow,
			height
		}, {
			role: one.role,
			kind: "activation",
			label: `${one.letter}_${head}`
		});
		x += narrow + GAP$1;
		const written = `${one.letter} = ${one.fromLabel} W_${one.letter}${bias}`;
		const ink = {
			fill: sheet.theme.roles[one.role].text,
			bold: true
		};
		if (x + formulaWidth(written, 8, true) <= sheet.width) body += formula(x, middle - 2, written, ink);
		wrap(turned ? "then turned by position" : USES[one.letter], sheet.width - x).forEach((said, place) => {
			if (sheet.width - x > 60) body += text(x, middle + 10 + place * LINE, said, { fill: sheet.theme.quiet });
		});
		return {
			body,
			bottom: top + lane + 12
		};
	}
	var USES = {
		Q: "what a position asks for",
		K: "what a position answers to",
		V: "what a position hands on"
	};
	function sign(sheet, x, y, content) {
		return text(x, y + 5, content, {
			fill: sheet.theme.text,
			size: 14,
			anchor: "middle"
		});
	}
	// src/figures/views/concat.ts
	var SIGN$1 = 26;
	function concat(data, sheet) {
		for (const remark of remarksOn(data)) sheet.note(remark);
		const joined = sideBySide(data.context);
		const out = data.output;
		const labels = new RowLabels(sheet, data.queries);
		const pitch = rowPitch(joined.rows, 220);
		const height = pitch * joined.rows;
		const room = sheet.width - labels.width - 52;
		const wide = Math.min(room / 3, 190);
		const down = Math.min(wide, 170);
		const lane = Math.max(height, down);
		const top = 27;
		const middle = top + lane / 2;
		const rows = middle - height / 2;
		let x = labels.width;
		let body = labels.draw(x, rows, pitch, data.token) + labels.heading(x, rows, pitch);
		const names = data.heads <= 8 && !sheet.narrow;
		const style = {
			role: "z",
			kind: "activation",
			parts: data.heads
		};
		const label = data.heads > 1 ? `Z_0 … Z_{${data.heads - 1}}` : "Z_0";
		body += drawMatrix(sheet, joined, {
			x,
			y: rows,
			width: wide,
			height
		}, {
			...style,
			label
		});
		if (names) body += headNumbers(sheet, x, rows + height + 9, wide, data.heads);
		x += wide;
		body += sign(sheet, x + SIGN$1 / 2, middle, "×");
		x += SIGN$1;
		const box = {
			x,
			y: middle - down / 2,
			width: wide,
			height: down
		};
		body += drawMatrix(sheet, data.wo, box, {
			role: "z",
			kind: "weight",
			label: "W_O"
		});
		x += wide;
		body += sign(sheet, x + SIGN$1 / 2, middle, "=");
		x += SIGN$1;
		body += drawMatrix(sheet, out, {
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
			title: `${capitalised(placeName(data.place))}: the heads side by side, times W_O`,
			description: [
				`${plural(data.heads, "matrix", "matrices")} Z of ${data.context?.[0]?.cols ?? 0} columns side by side`,
				`(${joined.rows} × ${joined.cols}) × W_O (${joined.cols} × ${out.cols})${bias}`,
				`= output (${out.rows} × ${out.cols}): again one row a token.`
			],
			body,
			height: top + lane + 12 + (names ? 11 : 0)
		};
	}
	function headNumbers(sheet, x, y, width, heads) {
		let written = text(x - 4, y + 12, "head", {
			fill: sheet.theme.roles.z.text,
			anchor: "end"
		});
		for (let head = 0; head < heads; head++) {
			const middle = x + width * (head + .5) / heads;
			written += text(middle, y + 12, String(head), {
				fill: sheet.theme.roles.z.text,
				anchor: "middle"
			});
		}
		return written;
	}
	function sideBySide(matrices) {
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
	var BETWEEN = 17;
	var MOST_HEADS = 8;
	/** The heads that are drawn; null stands for those left out. */
	function drawnHeads(heads, most = MOST_HEADS) {
		const all = Array.from({ length: heads }, (_, head) => head);
		return heads <= most ? all : [
			...all.slice(0, most - 2),
			null,
			heads - 1
		];
	}
	function multiHead(data, sheet) {
		for (const remark of remarksOn(data)) sheet.note(remark);
		const left = inputs(data, sheet);
		const lanes = laneRows(data, sheet, left.width);
		const height = Math.max(left.height, lanes.height);
		const join = bottom(data, sheet, height + 14);
		const cross = data.place.kind === "cross" ? " Q is made from X, K and V from the memory." : "";
		return {
			title: `${capitalised(placeName(data.place))}: all of it, from tokens to output`,
			description: [
				`${plural(data.heads, "head")}: each multiplies by its own W_Q, W_K and W_V,`,
				"compares Q with K, takes from V, and gives a Z;",
				`all Z side by side, times W_O, are the output (${data.output?.rows ?? 0} × ${data.output?.cols ?? 0}).${cross}`
			],
			body: left.draw(height) + lanes.draw(height, left.height) + join.body,
			height: join.height
		};
	}
	/** X, and in cross-attention the memory below it. */
	function inputs(data, sheet) {
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
		const labels = sides.map((side) => new RowLabels(sheet, side.tokens, sheet.narrow ? 22 : 40));
		const wide = sheet.narrow ? 40 : 66;
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
					const own = heights[place];
					y += 27;
					body += labels[place].draw(start, y, own / side.matrix.rows, place === 0 ? data.token : null);
					const box = {
						x: start,
						y,
						width: wide,
						height: own
					};
					body += drawMatrix(sheet, side.matrix, box, {
						role: side.role,
						kind: "activation",
						label: side.label
					});
					y += own + 12;
				});
				return body;
			}
		};
	}
	function laneRows(data, sheet, left) {
		const shown = drawnHeads(data.heads);
		const tall = shown.length <= 4 ? 56 : 32;
		const pitch = tall + 22;
		const columns = columnsOf(data, sheet, sheet.width - left, tall);
		const height = shown.reduce((sum, head) => sum + (head === null ? 16 : pitch), 0);
		return {
			height,
			draw: (room) => {
				let y = (room - height) / 2;
				let body = "";
				for (const head of shown) {
					if (head === null) {
						const rest = `⋮ ${plural(data.heads - shown.length + 1, "more head")}`;
						body += text(left + BETWEEN + 8, y + 10, rest, { fill: sheet.theme.quiet });
						y += 16;
						continue;
					}
					body += lane(sheet, columns, head, left, y + 18, tall, room / 2);
					y += pitch;
				}
				return body;
			}
		};
	}
	function columnsOf(data, sheet, room, tall) {
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
		const withWeights = !sheet.narrow;
		if (!withWeights) sheet.note("At this width the heads’ weights are left out.");
		const width = (room - ((withWeights ? 4 : 3) * BETWEEN + (withWeights ? 4 : 2) * GAP)) / (withWeights ? 9.2 : 5.6);
		const parts = [];
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
			const scale = commonScale(sheet, matrices, width * 1.2, tall);
			const letter = `W_${letters[place]}`;
			parts.push({
				letter,
				role: roles[place],
				kind: "weight",
				matrices,
				scale,
				width: width * 1.2,
				before: place === 0 ? BETWEEN : 9,
				sign: ""
			});
		});
		activations.forEach((matrices, place) => {
			const scale = commonScale(sheet, matrices, width, tall);
			parts.push({
				letter: letters[place],
				role: roles[place],
				kind: "activation",
				matrices,
				scale,
				width,
				before: place === 0 ? BETWEEN : GAP,
				sign: place === 0 && withWeights ? "→" : ""
			});
		});
		const square = width * 1.6;
		parts.push({
			letter: "softmax",
			role: "none",
			kind: "activation",
			matrices: weights,
			scale: probabilityScale(weights),
			width: square,
			before: BETWEEN,
			sign: "→"
		});
		const context = data.context;
		parts.push({
			letter: "Z",
			role: "z",
			kind: "activation",
			matrices: context,
			scale: commonScale(sheet, context, width, tall),
			width,
			before: BETWEEN,
			sign: "→"
		});
		return parts;
	}
	function lane(sheet, columns, head, left, top, tall, centre) {
		const middle = top + tall / 2;
		const stroke = sheet.theme.faint;
		const [from, to] = [left + 3, left + BETWEEN - 4];
		let body = tag("path", {
			d: `M${from} ${Math.round(centre)}L${Math.round(to)} ${Math.round(middle)}`,
			fill: "none",
			stroke,
			"stroke-width": 1
		});
		let x = left;
		for (const column of columns) {
			x += column.before;
			if (column.sign !== "") body += sign(sheet, x - BETWEEN / 2, middle, column.sign);
			const box = {
				x,
				y: top,
				width: column.width,
				height: tall
			};
			const label = column.letter === "softmax" ? "" : column.kind === "weight" ? `${column.letter}^{${head}}` : `${column.letter}_{${head}}`;
			const style = {
				role: column.role,
				kind: column.kind,
				label,
				scale: column.scale,
				sizes: "none"
			};
			body += drawMatrix(sheet, column.matrices[head], box, style);
			if (label === "") body += text(x + column.width / 2, top - 4, "softmax", {
				fill: sheet.theme.quiet,
				anchor: "middle"
			});
			x += column.width;
		}
		return body;
	}
	/** All Z × W_O = output. */
	function bottom(data, sheet, y) {
		const joined = sideBySide(data.context);
		const out = data.output;
		const labels = new RowLabels(sheet, data.queries, sheet.narrow ? 22 : 40);
		const room = sheet.width - labels.width - 52;
		const wide = Math.min(room / 3, 150);
		const pitch = rowPitch(joined.rows, 150, 8.8);
		const height = pitch * joined.rows;
		const down = Math.min(wide, 130);
		const tall = Math.max(height, down);
		const middle = y + 27 + tall / 2;
		const rows = middle - height / 2;
		let x = labels.width;
		let body = labels.draw(x, rows, pitch, data.token);
		const label = data.heads > 1 ? `Z_0 … Z_{${data.heads - 1}}` : "Z_0";
		body += drawMatrix(sheet, joined, {
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
		body += sign(sheet, x + 13, middle, "×");
		x += 26;
		body += drawMatrix(sheet, data.wo, {
			x,
			y: middle - down / 2,
			width: wide,
			height: down
		}, {
			role: "z",
			kind: "weight",
			label: "W_O"
		});
		x += wide;
		body += sign(sheet, x + 13, middle, "=");
		x += 26;
		body += drawMatrix(sheet, out, {
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
			height: y + 27 + tall + 12
		};
	}
	// src/figures/views/bridge.ts
	var MOST_LAYERS = 6;
	function bridge(data, sheet) {
		sheet.note("Layers are counted from 0.");
		const labels = new RowLabels(sheet, data.tokens, sheet.narrow ? 26 : 46);
		const shown = drawnHeads(data.lanes.length, MOST_LAYERS);
		const widths = columnWidths(sheet, labels.width);
		const tall = shown.length <= 3 ? 54 : 40;
		const pitch = tall + 27 + 12 + 15;
		const lanes = shown.reduce((sum, layer) => sum + (layer === null ? 16 : pitch), 0);
		const memoryPitch = rowPitch(data.tokens.length, 190);
		const memoryTall = memoryPitch * data.tokens.length;
		const height = Math.max(lanes, memoryTall + 27 + 12);
		const middle = (height - 12 + 27) / 2;
		const top = middle - memoryTall / 2;
		let body = labels.draw(labels.width, top, memoryPitch);
		const box = {
			x: labels.width,
			y: top,
			width: widths.memory,
			height: memoryTall
		};
		body += drawMatrix(sheet, data.memory, box, {
			role: "memory",
			kind: "activation",
			label: "memory"
		});
		let y = (height - lanes) / 2;
		for (const layer of shown) {
			if (layer === null) {
				const rest = `⋮ ${plural(data.lanes.length - shown.length + 1, "more layer")}, each with its own`;
				body += text(labels.width + widths.memory + 30, y + 10, rest, { fill: sheet.theme.quiet });
				y += 16;
				continue;
			}
			const centre = y + 27 + tall / 2;
			const start = labels.width + widths.memory;
			body += line(start + 2, middle, start + widths.gap - 5, centre, sheet.theme.roles.memory.fill, 1);
			body += drawLane(data, data.lanes[layer], start + widths.gap, y + 27, tall, widths, sheet);
			y += pitch;
		}
		return {
			title: "From the encoder’s output to K and V of every decoder layer",
			description: sentences$2(data),
			body,
			height
		};
	}
	function columnWidths(sheet, labels) {
		const gap = sheet.narrow ? 16 : 30;
		const unit = (sheet.width - labels - gap - (sheet.narrow ? 32 : 92)) / (sheet.narrow ? 5.2 : 6.8);
		return {
			memory: unit * 1.2,
			gap,
			weight: unit * .8,
			made: unit * 1.2
		};
	}
	function drawLane(data, lane, left, top, tall, widths, sheet) {
		const arrow = sheet.narrow ? 11 : 14;
		const centre = top + tall / 2;
		const ground = top + tall + 11.5;
		const pairs = [{
			letter: "K",
			role: "k",
			weight: lane.wk,
			made: lane.k,
			shared: lane.kSharedWith
		}, {
			letter: "V",
			role: "v",
			weight: lane.wv,
			made: lane.v,
			shared: lane.vSharedWith
		}];
		let x = left;
		let body = "";
		for (const pair of pairs) {
			const weight = {
				x,
				y: top,
				width: widths.weight,
				height: tall
			};
			body += drawMatrix(sheet, pair.weight, weight, {
				role: pair.role,
				kind: "weight",
				label: `W_${pair.letter}^{${lane.layer}}`,
				sizes: "none"
			});
			const whose = pair.shared === null ? "own" : `shared with ${shortened(pair.shared)}`;
			const ink = {
				fill: pair.shared === null ? sheet.theme.roles[pair.role].text : sheet.theme.accent,
				anchor: "middle",
				bold: true
			};
			const room = pair.shared === null ? widths.weight + 8 : widths.weight + arrow + widths.made;
			const middle = pair.shared === null ? x + widths.weight / 2 : x + room / 2;
			body += text(middle, ground, cut(whose, room, 8, true), ink);
			x += widths.weight;
			body += sign(sheet, x + arrow / 2 + 1, centre, "→");
			x += arrow + 2;
			const made = {
				x,
				y: top,
				width: widths.made,
				height: tall
			};
			body += drawMatrix(sheet, pair.made, made, {
				role: pair.role,
				kind: "activation",
				label: `${pair.letter}^{${lane.layer}}`,
				parts: data.heads,
				sizes: sheet.narrow || pair.shared !== null ? "none" : "below"
			});
			x += widths.made + (sheet.narrow ? 10 : 14) - 2;
		}
		return sheet.narrow ? body : body + encoders(data, lane, x, top, tall, widths, sheet);
	}
	/** The encoder's top layer's matrices, greyed, because they are not the ones that are used. */
	function encoders(data, lane, left, top, tall, widths, sheet) {
		const sides = [[
			"K",
			data.encoderTop.wk,
			lane.kCosine,
			"k",
			lane.kSharedWith
		], [
			"V",
			data.encoderTop.wv,
			lane.vCosine,
			"v",
			lane.vSharedWith
		]];
		const encoder = `encoder.layers.${data.encoderTop.layer}.`;
		let x = left + 8;
		const same = sides.some(([, , , , shared]) => shared !== null && shared.startsWith(encoder));
		let body = sign(sheet, x, top + tall / 2, same ? "=" : "≠");
		x += 12;
		for (const [letter, matrix, cosine, role] of sides) {
			const box = {
				x,
				y: top,
				width: widths.weight,
				height: tall
			};
			body += drawMatrix(sheet, matrix, box, {
				role,
				kind: "weight",
				label: `enc. W_${letter}`,
				pale: true,
				sizes: "none"
			});
			const said = cosine === null ? "" : `cos ${signed(cosine)}`;
			body += text(x + widths.weight / 2, top + tall + 11.5, said, {
				fill: sheet.theme.quiet,
				anchor: "middle"
			});
			x += widths.weight + 12;
		}
		return body;
	}
	/** Two digits, and no −0.00. */
	function signed(x) {
		const rounded = Math.round(x * 100) / 100;
		return (rounded === 0 ? 0 : rounded).toFixed(2).replace("-", "−");
	}
	/** "decoder.layers.0.cross_attention.k_proj.weight" as "decoder 0 cross W_K". */
	function shortened(name) {
		const found = /^(encoder|decoder)\.layers\.(\d+)\.(self|cross)_attention\.([qkv])_proj/.exec(name);
		return found ? `${found[1]} ${found[2]} ${found[3]} W_${found[4].toUpperCase()}` : name;
	}
	function sentences$2(data) {
		const own = data.lanes.filter((lane) => lane.kSharedWith === null && lane.vSharedWith === null).length;
		const { rows, cols } = data.memory;
		const all = data.lanes.length;
		const whose = own === all ? `each of the ${all} decoder layers has its own W_K and W_V` : `${own} of ${all} decoder layers have W_K and W_V of their own, the others share them`;
		return [
			`The encoder’s output (memory, ${rows} × ${cols}) is the same for all;`,
			`${all === 1 ? "the one decoder layer has its W_K and W_V" : whose}, and makes its K and V with them, once a sentence.`,
			...alikeness(data)
		];
	}
	/** How near the decoder's matrices are to the encoder's, where that can be said. */
	function alikeness(data) {
		const cosines = data.lanes.flatMap((lane) => [lane.kCosine, lane.vCosine]).filter((one) => one !== null);
		if (cosines.length === 0) return [];
		const [least, most] = [Math.min(...cosines), Math.max(...cosines)];
		const unrelated = Math.max(-least, most) < .2 ? "unrelated matrices" : "not all of them unrelated";
		return [`Their cosines with the encoder’s top layer’s W_K and W_V lie from ${decimal(least)} to ${decimal(most)}: ${unrelated}.`];
	}
	// src/figures/views/selfAttention.ts
	var SIGN = 24;
	function selfAttention(data, sheet) {
		const head = data.head ?? 0;
		for (const remark of remarksOn(data)) sheet.note(remark);
		const picture = drawn$1(data, head, sheet);
		const weights = data.weights?.[head];
		const row = data.token ?? clearest(data, [weights])[0]?.[1] ?? 0;
		return {
			title: `${capitalised(placeName(data.place))}, head ${head}: from Q, K and V to Z`,
			description: [
				`Head ${head} of ${placeName(data.place)}:`,
				`${spoken(data.queries[row])} looks most at ${strongest(weights, row, data.keys)};`,
				`its row of Z is the mean of the rows of V, weighted so.`
			],
			...picture
		};
	}
	function drawn$1(data, head, sheet) {
		const [q, k, v, z] = [
			data.q,
			data.k,
			data.v,
			data.context
		].map((list) => list?.[head]);
		const labels = new RowLabels(sheet, data.queries, sheet.narrow ? 26 : 54);
		const columns = new ColumnLabels(sheet, data.keys.map((token) => shown(token.after ?? token.text)), sheet.narrow ? 34 : 50);
		const keyLabels = new RowLabels(sheet, data.keys.map((token) => ({ text: token.after ?? token.text })), sheet.narrow ? 26 : 50);
		const pitch = rowPitch(q.rows, 180);
		const height = pitch * q.rows;
		const room = sheet.width - labels.width - 48 - columns.overhang;
		const narrow = Math.min(72, room * .22, Math.max(20, q.cols * 4));
		const square = Math.min(210, Math.max(room - 2 * narrow - keyLabels.width, room * .36), Math.max(k.rows * 14, 92));
		const column = square / k.rows;
		const down = narrow;
		const first = Math.max(height, down + columns.height);
		const top = 27 + columns.height;
		const middle = top + height / 2;
		let x = labels.width;
		let body = labels.draw(x, top, pitch, data.token);
		if (!sheet.narrow) body += labels.heading(x, top, pitch);
		body += drawMatrix(sheet, q, {
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
		body += sign(sheet, x + SIGN / 2, middle, "×");
		x += SIGN;
		const keyRoom = Math.min(square, room - narrow - square);
		const keyTop = Math.max(top, middle - down / 2);
		body += drawMatrix(sheet, transposed(k), {
			x,
			y: keyTop,
			width: keyRoom,
			height: down
		}, {
			role: "k",
			kind: "activation",
			label: `K_${head}^T`
		});
		x += keyRoom;
		body += sign(sheet, x + SIGN / 2, middle, "→");
		x += SIGN;
		const scores = {
			x,
			y: top,
			width: square,
			height
		};
		body += drawMatrix(sheet, data.scores?.[head], scores, {
			role: "none",
			kind: "activation",
			label: "",
			sizes: "below"
		});
		body += columns.draw(x, top, column);
		body += formula(x, top - columns.height - 3, scoreName(data, q.cols), {
			fill: sheet.theme.text,
			bold: true
		});
		const lower = top + first + 12 + 6 + 27 + columns.height;
		const keyPitch = rowPitch(v.rows, 180);
		const keyHeight = keyPitch * v.rows;
		const lane = Math.max(height, keyHeight);
		const centre = lower + lane / 2;
		const weightsTop = centre - height / 2;
		x = labels.width;
		const weights = data.weights?.[head];
		const scale = probabilityScale([weights]);
		body += labels.draw(x, weightsTop, pitch, data.token);
		body += drawMatrix(sheet, weights, {
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
			fill: sheet.theme.text,
			bold: true
		});
		x += square;
		body += sign(sheet, x + SIGN / 2 + 2, centre, "×");
		x += SIGN + keyLabels.width;
		const valueTop = centre - keyHeight / 2;
		body += keyLabels.draw(x, valueTop, keyPitch);
		body += drawMatrix(sheet, v, {
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
		body += sign(sheet, x + SIGN / 2, centre, "=");
		x += SIGN;
		body += drawMatrix(sheet, z, {
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
			height: lower + lane + 12
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
	// src/figures/views/film.ts
	var MOST_STEPS = 14;
	var TALL = 17;
	var PITCH = 25;
	var HEADING = "reads → writes";
	function film(data, sheet) {
		sheet.note("Layers, heads and steps are counted from 0.");
		const steps = chosenSteps(data.target.length);
		if (steps.length < data.target.length) sheet.note(`${steps.length} of ${data.target.length} steps are shown.`);
		return {
			title: `Decoding with two caches: decoder layer ${data.layer}, head ${data.head}`,
			description: sentences$1(data),
			...strips(data, steps, sheet)
		};
	}
	/** The first few, the last, and some between. */
	function chosenSteps(count, most = MOST_STEPS) {
		if (count <= most) return Array.from({ length: count }, (_, step) => step);
		return [
			0,
			1,
			2,
			3,
			...Array.from({ length: most - 4 }, (_, place) => 4 + Math.round(place * (count - 5) / (most - 5))).filter((step) => step > 3)
		];
	}
	function sentences$1(data) {
		const [steps, source] = [data.target.length, data.source.length];
		const recurrent = [`This decoder has no self-attention: each layer keeps one vector of ${data.selfK.cols} numbers (SSRU)`, "and overwrites it at every step."];
		const growing = ["At each step one column joins the keys and values of the target; the others are reused:", `${plural(steps, "position")} computed instead of ${steps * (steps + 1) / 2}.`];
		const first = data.target[0];
		return [
			...data.recurrent ? recurrent : growing,
			`The keys and values of the ${source} source tokens are made once, before the first step, and never change.`,
			data.layers > 1 ? `The same in all ${data.layers} layers.` : "",
			first === void 0 ? "" : `Step 0 reads ${quoted(first.after ?? "")} and writes ${quoted(first.text)}.`
		].filter((sentence) => sentence !== "");
	}
	function strips(data, steps, sheet) {
		const { theme } = sheet;
		const cap = sheet.narrow ? 30 : 52;
		const texts = (pick) => Math.min(cap, Math.max(...data.target.map((one) => measure(shown(one[pick] ?? ""), 8))));
		const [before, after] = [texts("after"), texts("text")];
		const number = measure(String(data.target.length - 1), 8) + 6;
		const counted = data.recurrent ? "overwritten" : `1 new, ${data.target.length - 1} reused`;
		const left = Math.max(number + before + 12 + after, number + measure(counted, 8), measure(HEADING, 8)) + 8;
		const own = data.recurrent ? 3 : data.target.length;
		const targets = new ColumnLabels(sheet, data.recurrent ? [] : data.target.map((one) => shown(one.after ?? "")), 40);
		const sources = new ColumnLabels(sheet, data.source.map((one) => shown(one.text)), 40);
		const gap = 14;
		const headings = data.recurrent ? {
			narrow: 84,
			wide: 190
		} : {
			narrow: 50,
			wide: 150
		};
		const title = sheet.narrow ? headings.narrow : headings.wide;
		const roomy = (sheet.width - left - gap - sources.overhang) / (own + data.source.length);
		const selfX = left;
		const crossX = left + Math.max(own * Math.min(14, roomy) + gap, title);
		const column = Math.min(14, roomy, (sheet.width - crossX - sources.overhang) / data.source.length);
		const top = Math.max(targets.height, sources.height) + 13;
		let body = "";
		body += targets.draw(selfX, top, column) + sources.draw(crossX, top, column);
		const selfK = transposed(data.selfK);
		const crossK = transposed(data.crossK);
		const drawnAt = (keys) => signedScale([fitted(sheet, keys, keys.cols * column, TALL, Math.min(4.8, column))]);
		const scales = {
			self: drawnAt(selfK),
			cross: drawnAt(crossK)
		};
		sheet.keys.push({
			meaning: "computed in this step",
			look: {
				fill: "none",
				stroke: theme.accent,
				"stroke-width": 1.4
			}
		});
		sheet.note("Pale columns are reused.");
		body += heading(data, sheet, selfX, crossX, decimal(scales.self.limit), decimal(scales.cross.limit));
		steps.forEach((step, place) => {
			const y = top + place * PITCH;
			const token = data.target[step];
			const x = number + before;
			body += text(number - 6, y + 8, String(step), {
				fill: theme.text,
				bold: true,
				anchor: "end"
			});
			body += text(x, y + 8, cut(shown(token?.after ?? ""), before + .01), {
				fill: theme.quiet,
				anchor: "end"
			});
			body += text(x + 6, y + 8, "→", {
				fill: theme.quiet,
				anchor: "middle"
			});
			body += text(x + 12, y + 8, cut(shown(token?.text ?? ""), after + .01), { fill: theme.text });
			const said = data.recurrent ? "overwritten" : `1 new${step > 0 ? `, ${step} reused` : ""}`;
			body += text(left - 8, y + 17.5, said, {
				fill: theme.roles.k.text,
				anchor: "end"
			});
			body += data.recurrent ? cell(sheet, data, step, {
				x: selfX,
				y,
				width: 2.4 * column,
				height: TALL
			}, scales.self) : growing(sheet, selfK, step, selfX, y, column, data.target.length, scales.self);
			const box = {
				x: crossX,
				y,
				width: column * crossK.cols,
				height: TALL
			};
			const drawn = cells(sheet, fitted(sheet, crossK, box.width, TALL, Math.min(4.8, column)), box, scales.cross);
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
			height: top + steps.length * PITCH - 8 + 2
		};
	}
	function heading(data, sheet, selfX, crossX, self, source) {
		const { theme } = sheet;
		sheet.limits = true;
		const own = data.recurrent ? `${sheet.narrow ? "" : "no self-attention: "}one vector, ±${self}` : sheet.narrow ? `self: ±${self}` : `self-attention: K so far, ±${self}`;
		const cross = sheet.narrow ? `cross: ±${source}` : `cross-attention: K, made once, ±${source}`;
		return text(0, 8, HEADING, { fill: theme.quiet }) + formula(selfX, 8, own, {
			fill: theme.roles.k.text,
			bold: true
		}) + formula(crossX, 8, cut(cross, sheet.width - crossX, 8, true), {
			fill: theme.roles.memory.text,
			bold: true
		});
	}
	/** The cache of the target after a step: old columns pale, the new one framed, those to come empty. */
	function growing(sheet, keys, step, x, y, column, total, scale) {
		const { theme } = sheet;
		const part = (from, to) => {
			if (to <= from) return "";
			const values = [];
			for (let row = 0; row < keys.rows; row++) values.push(...keys.values.slice(row * keys.cols + from, row * keys.cols + to));
			const box = {
				x: x + from * column,
				y,
				width: (to - from) * column,
				height: TALL
			};
			return cells(sheet, fitted(sheet, {
				rows: keys.rows,
				cols: to - from,
				values
			}, box.width, TALL, Math.min(4.8, column)), box, scale);
		};
		const outline = tag("rect", {
			x,
			y,
			width: total * column,
			height: TALL,
			fill: "none",
			stroke: theme.faint,
			"stroke-dasharray": "2 2",
			"stroke-width": .6
		});
		const fresh = tag("rect", {
			x: x + step * column,
			y,
			width: column,
			height: TALL,
			fill: "none",
			stroke: theme.accent,
			"stroke-width": 1.4
		});
		return outline + tag("g", { opacity: "0.5" }, part(0, step)) + part(step, step + 1) + fresh;
	}
	function cell(sheet, data, step, box, scale) {
		const { cols, values } = data.selfK;
		const column = {
			rows: cols,
			cols: 1,
			values: values.slice(step * cols, (step + 1) * cols)
		};
		const frame = tag("rect", {
			...box,
			fill: "none",
			stroke: sheet.theme.accent,
			"stroke-width": 1.4
		});
		return cells(sheet, fitted(sheet, column, box.width, box.height, 4.8), box, scale) + frame;
	}
	// src/figures/views/heads.ts
	function heads(data, sheet) {
		for (const remark of remarksOn(data)) sheet.note(remark);
		const marked = data.place.kind === "self" ? data.token : null;
		const kinds = [
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
		const each = `${data.q?.[0]?.cols ?? 0} columns`;
		const cross = data.place.kind === "cross" ? " K and V have a row for every source token." : "";
		return {
			title: `${capitalised(placeName(data.place))}: Q, K and V of ${plural(data.heads, "head")}`,
			description: [`${plural(data.heads, "head")} of ${each}, each with its own part of W_Q, W_K and W_V.${cross}`],
			...grid(kinds, sheet)
		};
	}
	function headsOut(data, sheet) {
		for (const remark of remarksOn(data)) sheet.note(remark);
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
			title: `${capitalised(placeName(data.place))}: Z of ${plural(data.heads, "head")}`,
			description: [`Each head's Z = softmax(Q Kᵀ${data.scaled ? " / √K" : ""}) V.`, `Bars: how long a head's part of the output is (Z × its rows of W_O), mean over positions: ${named.join(", ")}.`],
			...grid([contexts], sheet, share)
		};
	}
	function percent(part, whole) {
		return `${whole > 0 ? Math.round(100 * part / whole) : 0} %`;
	}
	/** One column a head and one line a kind; heads that do not fit beside each other go into the next block. */
	function grid(kinds, sheet, share = []) {
		const labels = kinds.map((one) => new RowLabels(sheet, one.tokens, sheet.narrow ? 30 : 50));
		const left = Math.max(...labels.map((one) => one.width));
		const count = kinds[0]?.matrices.length ?? 0;
		const columns = kinds[0]?.matrices[0]?.cols ?? 1;
		const room = sheet.width - left;
		const gap = sheet.narrow ? 7 : 12;
		const least = 40;
		const most = Math.min(count, Math.max(1, Math.floor((room + gap) / (least + gap))), 8);
		const across = Math.ceil(count / Math.ceil(count / most));
		const width = Math.min((room - (across - 1) * gap) / across, Math.max(least, columns * 3.2), 130);
		const lines = kinds.length * Math.ceil(count / across);
		const full = Math.min(170, Math.max(48, 640 / lines - 45));
		let body = "";
		let y = 0;
		for (let first = 0; first < count; first += across) {
			kinds.forEach((one, line) => {
				const pitch = rowPitch(one.tokens.length, full);
				const height = pitch * one.tokens.length;
				const top = y + 27;
				const scale = commonScale(sheet, one.matrices, width, height);
				const own = labels[line];
				body += own.draw(left, top, pitch, one.marked);
				body += own.heading(left, top, pitch);
				for (let head = first; head < Math.min(first + across, count); head++) {
					const box = {
						x: left + (head - first) * (width + gap),
						y: top,
						width,
						height
					};
					const style = {
						role: one.role,
						kind: "activation",
						label: `${one.letter}_{${head}}`,
						scale
					};
					body += drawMatrix(sheet, one.matrices[head], box, style);
					body += share.length > 0 ? bar(sheet, box.x, top + height + 12 + 2, width, share, head) : "";
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
	/** How much of the whole a head brings, as a bar and a number. */
	function bar(sheet, x, y, width, share, head) {
		const total = share.reduce((sum, one) => sum + one, 0);
		const largest = Math.max(...share, 1e-9);
		const own = share[head];
		const { theme } = sheet;
		return tag("rect", {
			x,
			y,
			width,
			height: 5,
			fill: theme.mat
		}) + tag("rect", {
			x,
			y,
			width: width * own / largest,
			height: 5,
			fill: theme.roles.z.fill
		}) + text(x + width / 2, y + 14, `${decimal(own)} (${percent(own, total)})`, {
			fill: theme.quiet,
			anchor: "middle"
		});
	}
	// src/figures/views/softmax.ts
	var ROW = 14;
	var BAR = 9;
	function softmax(data, sheet) {
		const rows = data.likeliest.map((one) => ({
			label: shown(one.text),
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
		const before = data.before.map(shown);
		const last = data.before[data.before.length - 1] ?? "";
		return {
			title: `What comes next at target position ${data.position}, after ${quoted(last)}`,
			description: sentences(data),
			...bars(rows, before, sheet)
		};
	}
	function sentences(data) {
		const named = data.likeliest.slice(0, 3).map((one) => `${quoted(one.text)} ${probability(one.probability)}`);
		const rest = `${plural(data.rest.count, "other token")} together ${probability(data.rest.probability)}`;
		return [
			`Position ${data.position} of ${data.positions}, counted from 0: ${named.join(", ")}; ${rest}.`,
			`Written: ${quoted(data.written)}, ${probability(data.writtenProbability)}.`,
			`Entropy ${decimal(data.entropy)} nats.`
		];
	}
	function bars(rows, before, sheet) {
		const { theme } = sheet;
		const labels = Math.min(sheet.narrow ? 70 : 110, Math.max(...rows.map((row) => measure(row.label, 8, row.written)))) + 5;
		const room = sheet.width - labels - 74;
		const top = 26;
		const height = rows.length * ROW;
		let body = target(before, sheet);
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
			const y = top + place * ROW + 5 / 2;
			const fill = row.written ? theme.roles.z.fill : theme.roles.memory.fill;
			const look = row.rest ? {
				fill: `url(#${sheet.hatch})`,
				stroke: theme.quiet,
				"stroke-width": .5
			} : { fill };
			if (row.rest) sheet.hatches = true;
			const ink = row.written ? theme.accent : row.rest ? theme.quiet : theme.text;
			const width = row.probability * room;
			const value = probability(row.probability) + (row.written ? " written" : "");
			body += text(labels - 5, y + 7.2, cut(row.label, labels - 5, 8, row.written), {
				fill: ink,
				bold: row.written,
				anchor: "end"
			});
			if (width > .05) body += tag("rect", {
				x: labels,
				y,
				width,
				height: BAR,
				...look
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
	/** The target so far; its end is what matters, so a long one is cut at its beginning. */
	function target(before, sheet) {
		let tokens = before.map(isolated);
		const room = sheet.width - 8;
		while (tokens.length > 1 && measure(`so far: ${tokens.join(" ")} ▁`, 8) > room) tokens = ["…", ...tokens.slice(tokens[0] === "…" ? 2 : 1)];
		return text(0, 8, cut(`so far: ${tokens.join(" ")} _`, room), { fill: sheet.theme.quiet });
	}
	// src/figures/index.ts
	var VIEWS = {
		qkv,
		"self-attention": selfAttention,
		heads,
		"heads-out": headsOut,
		concat,
		"multi-head": multiHead,
		bridge,
		attention,
		film,
		beam,
		softmax
	};
	var views = Object.keys(VIEWS);
	function render(view, data, options = {}) {
		const { drawing, sheet } = drawn(view, data, options);
		return page(drawing, sheet);
	}
	/** What the figure says in words. */
	function describe(view, data, options = {}) {
		const { drawing, sheet } = drawn(view, data, options);
		return descriptionOf(drawing, sheet);
	}
	function drawn(view, data, options) {
		const draw = VIEWS[view];
		if (draw === void 0) throw new Error(`There is no view ${view}; there are ${views.join(", ")}.`);
		const key = hash(JSON.stringify([
			view,
			options,
			data
		], (name, value) => name === "values" ? null : value));
		let sheet = new Sheet(options, false, key);
		let drawing = draw(data, sheet);
		if (sheet.cells > 2500) {
			sheet = new Sheet(options, true, key);
			drawing = draw(data, sheet);
		}
		return {
			drawing,
			sheet
		};
	}
	/** FNV-1a: a short name for what is drawn. */
	function hash(content) {
		let h = 2166136261;
		for (let i = 0; i < content.length; i++) h = Math.imul(h ^ content.charCodeAt(i), 16777619) >>> 0;
		return h.toString(36);
	}
	exports.describe = describe;
	exports.measure = measure;
	exports.render = render;
	exports.views = views;
	return exports;
})({});
