"""Words and sentence patterns of the demo site, in three languages, and the exact Jaccard of what they make.

The patterns keep fixed runs shorter than a shingle, so that two articles share words but hardly a shingle.
"""

from __future__ import annotations

import itertools
import random
import re

import msgspec


class Language(msgspec.Struct, frozen=True):
    """Sentence patterns, and the words for their slots; the lists are separated by '|'."""

    code: str
    glue: str  # what stands between sentences
    patterns: tuple[str, ...]
    slots: dict[str, str]
    labels: str
    missing: str  # what a page that does not exist says; {} is the path asked for
    meta: str  # date and counter of a page


class Text(msgspec.Struct, frozen=True):
    headline: str
    paragraphs: tuple[tuple[str, ...], ...]

    def joined(self) -> str:
        return "\n".join([self.headline, *itertools.chain.from_iterable(self.paragraphs)])


ENGLISH = Language(
    code="en",
    glue=" ",
    patterns=(
        "{when} the {quality} {who} {did} {what} {where}.",
        "{who} and {who} {did} {what} {where}, {why}.",
        "{why}, so a {quality} {who} {did} {what} {when}.",
        "{where} every {quality} {who} {did} {what}.",
        "Nobody {where} {did} {what} {when} except one {quality} {who}.",
    ),
    slots={
        "when": "yesterday|before dawn|after supper|in late autumn|on market day|during the flood|"
        "last winter|at noon|twice a month|all through April|one foggy evening|since the strike|"
        "around midnight|on Sundays",
        "quality": "patient|retired|left-handed|cheerful|stubborn|sleepless|barefoot|famous|nervous|"
        "generous|silent|newly hired|half-blind|thrifty|restless|careful|sunburnt|grumbling|bookish|"
        "clumsy",
        "who": "ferryman|baker|clockmaker|nurse|lighthouse keeper|violinist|beekeeper|"
        "postmistress|diver|tailor|surveyor|schoolboy|bishop|welder|gardener|cartographer|smuggler|"
        "librarian|midwife|signalman|cooper|potter",
        "did": "repaired|borrowed|painted|weighed|hid|auctioned|described|buried|polished|"
        "photographed|counted|inherited|measured|forgot|traded|rescued|catalogued|misplaced|"
        "dismantled|praised|copied|insured",
        "what": "a brass telescope|three barrels of salt|the harbour bell|forty wool blankets|"
        "an unfinished canoe|two crates of lemons|the tide tables|a ledger of debts|"
        "seven copper kettles|the parish organ|a stuffed heron|nine sacks of barley|the old sundial|"
        "a cracked mirror|several glass floats|a map of the marsh|the spare anchor|"
        "ten reels of cable|an iron stove|the founder's portrait|some oars",
        "where": "behind the cannery|near the drawbridge|on the north pier|inside the customs house|"
        "by the quarry|under the viaduct|at the tram depot|above the bakery|across the estuary|"
        "beside the mill pond|along the sea wall|in the rope yard|outside the chapel|"
        "over at the brickworks|down by the sluice",
        "why": "hoping for rain|against all advice|the council had run out of money|"
        "to settle a wager|the ice came early|with nobody watching|as the contract demanded|"
        "the road was closed again|for the sake of the choir|prices had doubled|"
        "to please a distant cousin|the radio had warned of gales",
    },
    labels="Home|Tides|Markets|Letters|Weather|Ships in port|Notices|Archive|Subscribe|Contact|Jobs|Maps",
    missing="Page not found|Sorry, there is nothing at {} any more.|Check the address or try the search box.",
    meta="Published {} May 2021|{} readers so far|{} comments",
)
RUSSIAN = Language(
    code="ru",
    glue=" ",
    patterns=(
        "{when} {quality} {who} {did} {what} {where}.",
        "{who}, {quality} и упрямый, {did} {what} {when}.",
        "{why}, и {quality} {who} {where} {did} {what}.",
        "{where} {who} {did} {what}, {why}.",
        "{when} никто, кроме одного человека, не знал, что {who} {did} {what} {where}.",
    ),
    slots={
        "when": "вчера|до рассвета|после ужина|поздней осенью|в базарный день|во время паводка|"
        "прошлой зимой|в полдень|дважды в месяц|весь апрель|туманным вечером|после забастовки|"
        "около полуночи|по воскресеньям",
        "quality": "терпеливый|седой|весёлый|неразговорчивый|сонный|знаменитый|щедрый|рассеянный|"
        "бережливый|загорелый|ворчливый|начитанный|неуклюжий|осторожный|голодный|приезжий|молодой|"
        "усталый|бывший",
        "who": "паромщик|пекарь|часовщик|смотритель|скрипач|пасечник|почтальон|водолаз|портной|"
        "землемер|школьник|сварщик|садовник|картограф|библиотекарь|стрелочник|бондарь|гончар|кочегар|"
        "аптекарь|переплётчик",
        "did": "починил|одолжил|покрасил|взвесил|спрятал|продал|описал|закопал|начистил|"
        "снял на плёнку|пересчитал|унаследовал|измерил|забыл|выменял|спас|переписал|потерял|разобрал|"
        "похвалил|застраховал",
        "what": "медную трубу|три бочки соли|портовый колокол|сорок одеял|недостроенную лодку|"
        "два ящика лимонов|таблицу приливов|долговую книгу|семь чайников|старый орган|чучело цапли|"
        "мешок ячменя|солнечные часы|треснувшее зеркало|карту болот|запасной якорь|катушку кабеля|"
        "чугунную печь|портрет деда|пару вёсел",
        "where": "за консервным заводом|у разводного моста|на северном причале|в здании таможни|"
        "возле каменоломни|под виадуком|в трамвайном депо|над булочной|на том берегу|"
        "у мельничного пруда|вдоль дамбы|на канатном дворе|перед часовней|около кирпичного завода|"
        "ниже по течению",
        "why": "в надежде на дождь|вопреки советам|у города кончились деньги|чтобы выиграть спор|"
        "лёд встал рано|без свидетелей|как требовал договор|дорогу снова закрыли|ради хора|"
        "цены выросли вдвое|в угоду родственнику|по радио обещали шторм",
    },
    labels="Главная|Приливы|Рынки|Письма|Погода|Суда в порту|Объявления|Архив|Подписка|Контакты|Карты",
    missing="Страница не найдена|К сожалению, по адресу {} ничего нет.|Проверьте адрес или вернитесь.",
    meta="Опубликовано {} мая 2021 года|Прочитали {} раз|Комментариев: {}",
)
CHINESE = Language(
    code="zh",
    glue="",
    patterns=(
        "{when}，{quality}{who}{where}{did}{what}。",
        "{why}，{who}只好{where}{did}{what}。",
        "{who}和{quality}{who}{when}{did}{what}，{why}。",
        "{where}，人人都说{quality}{who}{did}{what}。",
    ),
    slots={
        "when": "昨天|天亮以前|晚饭后|深秋时节|赶集那天|涨水期间|去年冬天|正午时分|每月两次|"
        "整个四月|大雾的傍晚|罢工以后|半夜里|每逢周日|春分前后|雨停之后",
        "quality": "耐心的|退休的|左撇子|快活的|固执的|失眠的|赤脚的|出名的|紧张的|大方的|沉默的|"
        "新来的|节俭的|不安的|谨慎的|爱抱怨的|好学的|笨拙的|饥饿的|年轻的",
        "who": "摆渡人|面包师|钟表匠|护士|灯塔看守|小提琴手|养蜂人|邮递员|潜水员|裁缝|测量员|"
        "小学生|焊工|园丁|绘图师|图书管理员|接生婆|信号员|箍桶匠|陶工|锅炉工|药剂师",
        "did": "修好了|借走了|粉刷了|称过了|藏起了|拍卖了|描述了|埋掉了|擦亮了|拍下了|清点了|"
        "继承了|丈量了|忘记了|换来了|救出了|登记了|弄丢了|拆开了|夸奖了|抄写了",
        "what": "一架黄铜望远镜|三桶粗盐|港口的大钟|四十条毛毯|没造完的独木舟|两箱柠檬|潮汐表|"
        "一本欠账簿|七把铜壶|教堂的风琴|一只苍鹭标本|九袋大麦|老日晷|裂开的镜子|几个玻璃浮球|"
        "沼泽地图|备用船锚|十卷电缆|铸铁炉子|祖父的画像",
        "where": "在罐头厂后面|在吊桥附近|在北码头上|在海关楼里|在采石场旁|在高架桥下|在电车库里|"
        "在面包铺楼上|在河口对岸|在磨坊池边|沿着海堤|在制绳场|在小礼堂门外|在砖窑那边|在水闸下游",
        "why": "盼着下雨|不听劝告|镇上没钱了|为了打赌|冰来得早|没有人看见|合同这样写着|路又封了|"
        "为了合唱团|价钱涨了一倍|为了讨好远亲|广播里说要刮大风",
    },
    labels="首页|潮汐|集市|来信|天气|在港船只|告示|档案|订阅|联系我们|招聘|地图|票务|关于本站",
    missing="页面不存在|抱歉，{} 这个地址已经没有内容了。|请检查网址，或者回到首页。",
    meta="二〇二一年五月{}日发布|已有{}人阅读|{}条评论",
)


def sentence(language: Language, rng: random.Random) -> str:
    pattern = rng.choice(language.patterns)
    text = re.sub(r"\{(\w+)\}", lambda slot: rng.choice(language.slots[slot[1]].split("|")), pattern)
    return text[0].upper() + text[1:]


def reword(text: str, language: Language, rng: random.Random) -> str:
    """Return the sentence with another verb."""
    verbs = language.slots["did"].split("|")
    old = max((verb for verb in verbs if verb in text), key=len)
    return text.replace(old, rng.choice([verb for verb in verbs if verb != old]), 1)


def write_text(language: Language, rng: random.Random) -> Text:
    paragraphs = tuple(
        tuple(sentence(language, rng) for _ in range(rng.randint(3, 5))) for _ in range(rng.randint(4, 6))
    )
    return Text(sentence(language, rng).rstrip(".。"), paragraphs)


def shingles(text: str) -> set[tuple[str, ...]]:
    """Return the 5-word shingles; a Chinese character is a word."""
    words = re.findall(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+", text.lower())
    return set(zip(*(words[start:] for start in range(5)), strict=False))


def jaccard(one: str, other: str) -> float:
    mine, theirs = shingles(one), shingles(other)
    return len(mine & theirs) / len(mine | theirs)
