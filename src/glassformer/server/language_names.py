"""English names of languages by code, and the languages that a model's name tells."""

import re
from collections import Counter
from collections.abc import Sequence

# ISO 639-1, ISO 639-3 and the name; languages without a code of two letters have "-".
_LANGUAGES = """
aa aar Afar; ab abk Abkhazian; af afr Afrikaans; ak aka Akan; am amh Amharic; an arg Aragonese; ar ara Arabic;
as asm Assamese; av ava Avaric; ay aym Aymara; az aze Azerbaijani; ba bak Bashkir; be bel Belarusian; bg bul Bulgarian;
bi bis Bislama; bm bam Bambara; bn ben Bengali; bo bod Tibetan; br bre Breton; bs bos Bosnian; ca cat Catalan;
ce che Chechen; co cos Corsican; cs ces Czech; cv chv Chuvash; cy cym Welsh; da dan Danish; de deu German;
dv div Dhivehi; dz dzo Dzongkha; ee ewe Ewe; el ell Greek; en eng English; eo epo Esperanto; es spa Spanish;
et est Estonian; eu eus Basque; fa fas Persian; ff ful Fulah; fi fin Finnish; fj fij Fijian; fo fao Faroese;
fr fra French; fy fry Western Frisian; ga gle Irish; gd gla Scottish Gaelic; gl glg Galician; gn grn Guarani;
gu guj Gujarati; gv glv Manx; ha hau Hausa; he heb Hebrew; hi hin Hindi; hr hrv Croatian; ht hat Haitian Creole;
hu hun Hungarian; hy hye Armenian; ia ina Interlingua; id ind Indonesian; ig ibo Igbo; io ido Ido; is isl Icelandic;
it ita Italian; iu iku Inuktitut; ja jpn Japanese; jv jav Javanese; ka kat Georgian; kg kon Kongo; ki kik Kikuyu;
kk kaz Kazakh; kl kal Greenlandic; km khm Khmer; kn kan Kannada; ko kor Korean; kr kau Kanuri; ks kas Kashmiri;
ku kur Kurdish; kv kom Komi; kw cor Cornish; ky kir Kyrgyz; la lat Latin; lb ltz Luxembourgish; lg lug Ganda;
li lim Limburgish; ln lin Lingala; lo lao Lao; lt lit Lithuanian; lv lav Latvian; mg mlg Malagasy; mh mah Marshallese;
mi mri Maori; mk mkd Macedonian; ml mal Malayalam; mn mon Mongolian; mr mar Marathi; ms msa Malay; mt mlt Maltese;
my mya Burmese; nb nob Norwegian Bokmål; ne nep Nepali; nl nld Dutch; nn nno Norwegian Nynorsk; no nor Norwegian;
nv nav Navajo; ny nya Chichewa; oc oci Occitan; oj oji Ojibwa; om orm Oromo; or ori Odia; os oss Ossetian;
pa pan Punjabi; pl pol Polish; ps pus Pashto; pt por Portuguese; qu que Quechua; rm roh Romansh; rn run Rundi;
ro ron Romanian; ru rus Russian; rw kin Kinyarwanda; sa san Sanskrit; sc srd Sardinian; sd snd Sindhi;
se sme Northern Sami; sg sag Sango; si sin Sinhala; sk slk Slovak; sl slv Slovenian; sm smo Samoan; sn sna Shona;
so som Somali; sq sqi Albanian; sr srp Serbian; ss ssw Swati; st sot Southern Sotho; su sun Sundanese; sv swe Swedish;
sw swa Swahili; ta tam Tamil; te tel Telugu; tg tgk Tajik; th tha Thai; ti tir Tigrinya; tk tuk Turkmen; tl tgl Tagalog;
tn tsn Tswana; to ton Tongan; tr tur Turkish; ts tso Tsonga; tt tat Tatar; tw twi Twi; ty tah Tahitian; ug uig Uyghur;
uk ukr Ukrainian; ur urd Urdu; uz uzb Uzbek; ve ven Venda; vi vie Vietnamese; vo vol Volapük; wa wln Walloon;
wo wol Wolof; xh xho Xhosa; yi yid Yiddish; yo yor Yoruba; za zha Zhuang; zh zho Chinese; zu zul Zulu;
- ace Acehnese; - acm Mesopotamian Arabic; - acq Ta'izzi-Adeni Arabic; - aeb Tunisian Arabic;
- ajp South Levantine Arabic; - als Tosk Albanian; - apc North Levantine Arabic;
- arb Standard Arabic; - ars Najdi Arabic; - ary Moroccan Arabic;
- arz Egyptian Arabic; - ast Asturian; - awa Awadhi; - ayr Central Aymara; - azb South Azerbaijani;
- azj North Azerbaijani; - ban Balinese; - bem Bemba; - bho Bhojpuri; - bjn Banjar; - bug Buginese; - ceb Cebuano;
- cjk Chokwe; - ckb Central Kurdish; - crh Crimean Tatar; - dik Southwestern Dinka; - dyu Dyula; - fon Fon;
- fur Friulian; - fuv Nigerian Fulfulde; - gaz West Central Oromo; - gsw Swiss German; - hne Chhattisgarhi;
- hsb Upper Sorbian; - ilo Ilocano; - kab Kabyle; - kac Jingpho; - kam Kamba; - kbp Kabiyè; - kea Kabuverdianu;
- khk Halh Mongolian; - kmb Kimbundu; - kmr Northern Kurdish; - knc Central Kanuri; - lij Ligurian; - lmo Lombard;
- ltg Latgalian; - lua Luba-Kasai; - luo Luo; - lus Mizo; - lvs Standard Latvian; - mag Magahi; - mai Maithili;
- min Minangkabau; - mni Meitei; - mos Mossi; - npi Nepali; - nso Northern Sotho; - nus Nuer; - ory Odia;
- pag Pangasinan; - pap Papiamento; - pbt Southern Pashto; - pes Western Persian; - plt Plateau Malagasy; - prs Dari;
- quy Ayacucho Quechua; - sat Santali; - scn Sicilian; - shn Shan; - swh Swahili; - szl Silesian; - taq Tamasheq;
- tpi Tok Pisin; - tum Tumbuka; - tzm Central Atlas Tamazight; - umb Umbundu; - uzn Northern Uzbek; - vec Venetian;
- war Waray; - ydd Eastern Yiddish; - yue Cantonese; - zsm Standard Malay
"""
_ENTRIES = [entry.split(maxsplit=2) for entry in " ".join(_LANGUAGES.split()).split("; ")]
NAMES = {code: name for *codes, name in _ENTRIES for code in codes if code != "-"}
TWO_LETTERS = {two for two, _, _ in _ENTRIES if two != "-"}
SEPARATOR = r"(?:-|_|\.|2|to)"
PAIR = re.compile(rf"(?:^|.*[-_.])([a-z]{{2}}){SEPARATOR}([a-z]{{2}})(?:[-_.].*)?$")


def language_names(codes: Sequence[str]) -> dict[str, str]:
    """The languages' names in English by code, as in de, deu_Latn or de_DE; a code without a name stays as it is.

    Where several codes have the same name, what follows the language in the code is added.
    """
    names = {code: NAMES.get(re.split("[_-]", code)[0].lower(), code) for code in codes}
    counts = Counter(names.values())
    return {
        code: f"{name} ({rest})" if counts[name] > 1 and (rest := code[len(re.split("[_-]", code)[0]) + 1 :]) else name
        for code, name in names.items()
    }


def pair_of_name(name: str) -> tuple[str, str] | None:
    """Source and target language of a model with this name, as in opus-mt-en-de; None if it names no pair."""
    match = PAIR.match(name.lower())
    if match is None or not {match[1], match[2]} <= TWO_LETTERS or match[1] == match[2]:
        return None
    return match[1], match[2]
