"""Lexicon of the street corpus: movers, places, verbs and reasons. Tables only; `grammar` builds the sentences.

A reason describes either movers or places (a street is never tired, an animal never wide), so "it" is unambiguous.
"""

from typing import Literal, NamedTuple

Gender = Literal["m", "f", "n"]


class Noun(NamedTuple):
    english: str
    german: str
    gender: Gender


class Verb(NamedTuple):
    english: str
    past: str
    present: str
    infinitive: str
    praeteritum: str
    praesens: str
    particle: str = ""
    """The separable prefix of a German verb, at the end of the clause: "lehnte ... ab"."""
    towards: bool = True
    """Whether the action expresses liking the place, so that "too steep" is a reason against it."""

    @property
    def is_voluntary(self) -> bool:
        """Whether the verb goes with "could" and "wanted to": nobody wants to notice something."""
        return self.infinitive not in _INVOLUNTARY


class Reason(NamedTuple):
    english: str
    german: str
    of: Literal["mover", "place"]
    against: bool
    """Whether it is a reason against going to the place."""


def _nouns(gender: Gender, words: str) -> list[Noun]:
    pairs = (entry.strip().rsplit(" ", 1) for entry in words.split(","))
    return [Noun(english, german, gender) for english, german in pairs]


MOVERS = (
    *_nouns("m", "dog Hund, fox Fuchs, bear Bär, hedgehog Igel, bird Vogel, donkey Esel, wolf Wolf, hare Hase"),
    *_nouns("m", "elephant Elefant, monkey Affe, robot Roboter, frog Frosch, beetle Käfer, badger Dachs"),
    *_nouns("f", "cat Katze, mouse Maus, cow Kuh, goat Ziege, snake Schlange, duck Ente, goose Gans, snail Schnecke"),
    *_nouns("f", "giraffe Giraffe, spider Spinne, tortoise Schildkröte, owl Eule, rat Ratte, ant Ameise"),
    *_nouns("n", "animal Tier, horse Pferd, sheep Schaf, pig Schwein, chicken Huhn, rabbit Kaninchen, camel Kamel"),
    *_nouns("n", "squirrel Eichhörnchen, lamb Lamm, foal Fohlen, kitten Kätzchen, calf Kalb, crocodile Krokodil"),
    *_nouns("n", "zebra Zebra"),
)

PLACES = (
    *_nouns("m", "river Fluss, stream Bach, square Platz, park Park, path Weg, forest Wald, garden Garten, yard Hof"),
    *_nouns("m", "hill Hügel, lake See, swamp Sumpf, beach Strand, car park Parkplatz, canal Kanal"),
    *_nouns("f", "street Straße, bridge Brücke, meadow Wiese, crossing Kreuzung, desert Wüste, motorway Autobahn"),
    *_nouns("f", "alley Gasse, gorge Schlucht, plain Ebene, avenue Allee, pasture Weide, clearing Lichtung"),
    *_nouns("f", "island Insel, ramp Rampe"),
    *_nouns("n", "field Feld, valley Tal, moor Moor, railway track Gleis, site Gelände, shore Ufer, stadium Stadion"),
    *_nouns("n", "village Dorf, riverbed Flussbett, sea Meer, gate Tor, enclosure Gehege, quarter Viertel"),
    *_nouns("n", "thicket Dickicht"),
)

_TOWARDS = """
cross crossed crosses überqueren überquerte überquert
enter entered enters betreten betrat betritt
reach reached reaches erreichen erreichte erreicht
visit visited visits besuchen besuchte besucht
explore explored explores erkunden erkundete erkundet
use used uses benutzen benutzte benutzt
choose chose chooses wählen wählte wählt
love loved loves lieben liebte liebt
like liked likes mögen mochte mag
watch watched watches beobachten beobachtete beobachtet
traverse traversed traverses durchqueren durchquerte durchquert
pass passed passes passieren passierte passiert
admire admired admires bewundern bewunderte bewundert
enjoy enjoyed enjoys genießen genoss genießt
prefer preferred prefers bevorzugen bevorzugte bevorzugt
discover discovered discovers entdecken entdeckte entdeckt
inspect inspected inspects untersuchen untersuchte untersucht
guard guarded guards bewachen bewachte bewacht
seek sought seeks suchen suchte sucht
conquer conquered conquers erobern eroberte erobert
notice noticed notices bemerken bemerkte bemerkt
need needed needs brauchen brauchte braucht
accept accepted accepts akzeptieren akzeptierte akzeptiert
protect protected protects beschützen beschützte beschützt
defend defended defends verteidigen verteidigte verteidigt
search searched searches durchsuchen durchsuchte durchsucht
occupy occupied occupies besetzen besetzte besetzt
circle circled circles umkreisen umkreiste umkreist
mark marked marks markieren markierte markiert
find found finds finden fand findet
check checked checks prüfen prüfte prüft
appreciate appreciated appreciates schätzen schätzte schätzt
view viewed views ansehen sah sieht an
"""
_AWAY = """
avoid avoided avoids meiden mied meidet
leave left leaves verlassen verließ verlässt
fear feared fears fürchten fürchtete fürchtet
hate hated hates hassen hasste hasst
ignore ignored ignores ignorieren ignorierte ignoriert
reject rejected rejects ablehnen lehnte lehnt ab
forget forgot forgets vergessen vergaß vergisst
dread dreaded dreads scheuen scheute scheut
despise despised despises verachten verachtete verachtet
abandon abandoned abandons aufgeben gab gibt auf
bypass bypassed bypasses umgehen umging umgeht
detest detested detests verabscheuen verabscheute verabscheut
"""


_INVOLUNTARY = {
    *("lieben", "mögen", "bevorzugen", "entdecken", "bemerken", "brauchen", "finden", "schätzen", "genießen"),
    *("bewundern", "fürchten", "hassen", "vergessen", "scheuen", "verachten", "verabscheuen"),
}


def _verbs(table: str, towards: bool) -> list[Verb]:
    rows = (line.split() for line in table.strip().splitlines())
    return [Verb._make((*row[:6], "".join(row[6:]), towards)) for row in rows]


VERBS = (*_verbs(_TOWARDS, towards=True), *_verbs(_AWAY, towards=False))


def _reasons(of: Literal["mover", "place"], against: bool, words: str) -> list[Reason]:
    pairs = (entry.strip().split(" = ") for entry in words.split(","))
    return [Reason(english, german, of, against) for english, german in pairs]


REASONS = (
    *_reasons("mover", True, "tired = müde, anxious = ängstlich, weak = schwach, slow = langsam, sick = krank"),
    *_reasons("mover", True, "lazy = faul, hungry = hungrig, thirsty = durstig, young = jung, sleepy = schläfrig"),
    *_reasons("mover", True, "shy = scheu, nervous = nervös, exhausted = erschöpft, lonely = einsam, sad = traurig"),
    *_reasons("mover", True, "cautious = vorsichtig, impatient = ungeduldig"),
    *_reasons("mover", False, "curious = neugierig, brave = mutig, clever = klug, playful = verspielt, strong = stark"),
    *_reasons("mover", False, "patient = geduldig, cheerful = fröhlich, fearless = furchtlos, greedy = gierig"),
    *_reasons("mover", False, "determined = entschlossen, adventurous = abenteuerlustig, agile = flink"),
    *_reasons("place", True, "wide = breit, steep = steil, crowded = überfüllt, slippery = rutschig, foggy = neblig"),
    *_reasons("place", True, "icy = vereist, overgrown = überwuchert, flooded = überschwemmt, bumpy = holprig"),
    *_reasons("place", True, "stony = steinig, remote = abgelegen, dark = dunkel, narrow = eng, windy = windig"),
    *_reasons("place", True, "snowy = verschneit, busy = belebt, dusty = staubig"),
    *_reasons("place", False, "sunny = sonnig, flat = flach, shady = schattig, well lit = gut beleuchtet"),
    *_reasons("place", False, "spacious = weitläufig, picturesque = malerisch, idyllic = idyllisch, bright = hell"),
    *_reasons("place", False, "airy = luftig, easy to reach = leicht zu erreichen"),
)
