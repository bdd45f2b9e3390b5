// Tests doc/explore.html from within: explore.pl puts this at its end, with GIVEN, and reads
// what is found here.  What the page shows is asked as a person would, by its fields and buttons.

(async () => {
	const $ = name => document.getElementById(name);
	const found = { wrong: [], run: [], scenes: [], unnamed: [] };
	const type = (name, text) => { $(name).value = text; $(name).dispatchEvent(new Event('input')); };
	const wait = ms => new Promise(done => { setTimeout(done, ms); });
	const sorted = value => JSON.stringify(value, (key, one) => one && typeof one === 'object' && !Array.isArray(one) ?
		Object.fromEntries(Object.entries(one).sort()) : one);

	function begin() {
		found.begins = { id: $('id').value, preset: $('preset').value, scene: document.querySelector('[name=scene]:checked').value, hash: location.hash };
		found.background = getComputedStyle(document.body).backgroundColor;
	}

	// --- Ids

	function answer({ id, layout, time }) {
		let parsed, answer;
		try {
			parsed = explore.parse_layout(layout);
		} catch (fault) {
			return { invalid: 'invalid layout: ' + fault.message };
		}
		const number = BigInt(id);
		answer = Object.fromEntries(Object.keys(explore.FORMS).map(form => [form, explore.to_text(form, number)]));
		for (const form of Object.keys(explore.FORMS))
			if (explore.from_text(form, answer[form]) !== number) answer[form] += ' is not read back';
		answer.fields = explore.fields(parsed, number).map(field => [field.name, String(field.bits), String(field.shift), String(field.value), field.meaning]);
		try {
			const at = explore.read_time(time);
			return { ...answer, floor: String(explore.floor(parsed, at)), ceil: String(explore.ceil(parsed, at)) };
		} catch (fault) {
			return { ...answer, floor: fault.message };
		}
	}

	function ask_all() {
		GIVEN.questions.forEach((question, i) => {
			const ours = sorted(answer(question)), theirs = sorted(GIVEN.answers[i]);
			if (ours !== theirs && found.wrong.length < 5) found.wrong.push({ question, ours, theirs });
		});
		found.asked = GIVEN.questions.length;
	}

	// --- The recorded run

	const id_of = ({ tick, shard, sequence }) => String((BigInt(GIVEN.base + tick) << 6n) + BigInt(shard * 4 + sequence));

	function play_run() {
		const server = new minting.Server('', [5, 6, 7], { reserve: 1000 });
		GIVEN.run.forEach((op, i) => {
			if (op.clock !== undefined) {
				server.clock = op.clock;
				return;
			}
			const outcome = server.mint(op.who, op.shard ? [op.shard] : undefined);
			const said = outcome.waits ?? id_of(outcome);
			if (said !== String(op.waits ?? op.id) && found.run.length < 5)
				found.run.push({ step: i, server: op, page: said, before: GIVEN.run.slice(Math.max(0, i - 8), i) });
		});
		found.played = GIVEN.run.length;
	}

	// --- Scenes, each played by its button

	async function play_scenes() {
		for (const radio of document.querySelectorAll('[name=scene]')) {
			radio.click();
			const scene = minting.scenes.find(one => one.key === radio.value);
			$('play').click();
			for (let i = 0; i < 200 && $('play').textContent === 'Pause'; i++) await wait(500);
			const ids = minting.play(scene, scene.steps.length).servers.flatMap(server => server.ids).map(id => minting.number_of(id));
			found.scenes.push({ key: scene.key, steps: scene.steps.length, shown: $('log').children.length, twice: ids.length - new Set(ids).size });
			found.last_step = $('log').lastChild.textContent;
			const back = $('log').children.length;
			$('back').click();
			$('step').click();
			if ($('log').children.length !== back) throw new Error('Back and Step do not come to the same place');
		}
	}

	// --- Names, keys, widths, colours

	function look_at_names() {
		for (const one of document.querySelectorAll('button, input, select, textarea, svg, table')) {
			const labels = one.labels ? [...one.labels].map(label => label.textContent).join('') : '';
			const by = (one.getAttribute('aria-labelledby') ?? '').split(' ').map(name => $(name)?.textContent ?? '').join('');
			if (!(one.getAttribute('aria-label') || labels || by || one.textContent.trim())) found.unnamed.push(one.outerHTML.slice(0, 80));
		}
	}

	function press(key) {
		document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
		return document.activeElement.getAttribute('aria-label').replace(/,.*/, '');
	}

	function use_keys() {
		type('id', '0');
		document.querySelector('[data-bit="63"]').focus();
		found.keys = [press('ArrowRight'), press('ArrowDown')];
		document.activeElement.click();
		found.keys.push(BigInt($('id').value) === 1n << 46n && document.activeElement.dataset.bit === '46' ? 'turned' : $('id').value);
		document.activeElement.click();
		found.keys.push($('id').value === '0' ? 'back' : $('id').value);
	}

	function use_fields() {
		type('id', '175928847299117063');
		$('preset').value = 'discord';
		$('preset').dispatchEvent(new Event('change'));
		found.copied = [...document.querySelectorAll('#sql pre')].some(pre => pre.textContent === "SELECT * FROM snowflake_fields('175928847299117063', 'discord');");
		found.hidden = $('layout').scrollHeight - $('layout').clientHeight;
		document.querySelector('[data-resize="worker1"]').click();
		found.moved = $('layout').value;
		found.bad = [];
		type('id', '18446744073709551616');
		found.bad.push($('id-says').textContent);
		type('layout', 'epoch=0 unit=1ms fields=x:1');
		found.bad.push($('layout-says').textContent);
		type('layout', 'twitter');
		type('id', '175928847299117063');
	}

	const levels = colour => colour.match(/[\d.]+/g).slice(0, 3).map(Number).map(level => level / 255)
		.map(level => level <= 0.03928 ? level / 12.92 : ((level + 0.055) / 1.055) ** 2.4);
	const light = colour => levels(colour).reduce((sum, level, i) => sum + level * [0.2126, 0.7152, 0.0722][i], 0);

	function background_of(one) {
		for (; one; one = one.parentElement) {
			const colour = getComputedStyle(one).backgroundColor;
			if (!/, 0\)$/.test(colour)) return colour;
		}
		return 'rgb(255, 255, 255)';
	}

	function look_at_colours() {
		found.least_contrast = Math.min(...[...document.querySelectorAll('h1, p, a, button:enabled, th, td, label, input, textarea, pre')].map(one => {
			const [a, b] = [light(getComputedStyle(one).color), light(background_of(one))].sort((x, y) => y - x);
			return (a + 0.05) / (b + 0.05);
		}));
	}

	try {
		begin();
		ask_all();
		play_run();
		await play_scenes();
		look_at_names();
		use_keys();
		use_fields();
		look_at_colours();
		found.too_wide = Math.max(0, document.scrollingElement.scrollWidth - innerWidth);
	} catch (error) {
		found.error = String(error.stack ?? error);
	}
	const script = document.createElement('script');
	script.type = 'application/json';
	script.id = 'found';
	script.textContent = JSON.stringify(found).replace(/</g, '\\u003c');
	document.body.append(script);
})();
