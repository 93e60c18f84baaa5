#!/usr/bin/env python3
"""Which instructions an answer follows, by lm-evaluation-harness's own IFEval checkers.

    make_ifeval.py DATA > ifeval.jsonl

For each kind of English instruction of the data: answers that were made to follow or to
break it, judged by lm_eval/tasks/ifeval/instructions.py (Apache-2.0, Google). Sentences
come from NLTK and languages from langdetect there, so answers for these two kinds are
clear cases. Lines: {"id", "args", "answer", "follows"}.
"""
import importlib
import importlib.util
import json
import os
import sys
import types

# NLTK's models are not at hand: the harness only loads them for two functions.
import nltk
from nltk.tokenize import NLTKWordTokenizer  # rules only, no model
nltk.download = lambda *a, **k: True
nltk.data.find = lambda *a, **k: True
nltk.word_tokenize = lambda text, **_: NLTKWordTokenizer().tokenize(text)
import langdetect  # noqa: E402
langdetect.DetectorFactory.seed = 0

# The checkers alone, without the package around them, which wants many more.
FOLDER = os.path.join(os.path.dirname(importlib.util.find_spec("lm_eval").origin),
                      "tasks", "ifeval")
package = types.ModuleType("ifeval")
package.__path__ = [FOLDER]
sys.modules["ifeval"] = sys.modules["lm_eval.tasks.ifeval"] = package
sys.modules.setdefault("lm_eval.tasks", types.ModuleType("lm_eval.tasks"))
instructions_util = importlib.import_module("lm_eval.tasks.ifeval.instructions_util")
instructions_registry = importlib.import_module(
    "lm_eval.tasks.ifeval.instructions_registry")

PROSE = {
    "en": "The weather was fine this morning and we went for a long walk by the river.",
    "de": "Das Wetter war heute Morgen schön und wir haben einen langen Spaziergang gemacht.",
    "it": "Questa mattina il tempo era bello e abbiamo fatto una lunga passeggiata.",
    "pt": "Esta manhã o tempo estava bom e nós fizemos uma longa caminhada pelo rio.",
    "es": "Esta mañana el tiempo era bueno y dimos un largo paseo por el río con los niños.",
    "fr": "Ce matin il faisait beau et nous avons fait une longue promenade dans la forêt.",
    "fi": "Tänä aamuna sää oli kaunis ja me kävelimme pitkään joen rannalla, mutta se on ohi.",
    "sw": "Leo asubuhi hali ya hewa ilikuwa nzuri na sisi tulitembea kwa muda mrefu.",
    "vi": "Sáng nay thời tiết rất đẹp và chúng tôi đã đi dạo rất lâu dọc theo con sông.",
    "ru": "Сегодня утром погода была хорошая, и мы долго гуляли по берегу реки.",
    "bg": "Тази сутрин времето беше хубаво и ние дълго се разхождахме край реката.",
    "hi": "आज सुबह मौसम अच्छा था और हम नदी के किनारे बहुत देर तक घूमते रहे।",
    "mr": "आज सकाळी हवामान छान होते आणि आम्ही नदीच्या काठावर खूप वेळ फिरत होतो आहे.",
    "ne": "आज बिहान मौसम राम्रो थियो र हामी नदीको किनारमा धेरै बेर हिँड्यौं छ।",
    "ar": "كان الطقس جميلا هذا الصباح وقد مشينا مسافة طويلة على ضفاف النهر مع الأصدقاء.",
    "fa": "امروز صبح هوا خوب بود و ما مدت زیادی در کنار رودخانه قدم زدیم که زیبا است.",
    "ur": "آج صبح موسم اچھا تھا اور ہم دریا کے کنارے بہت دیر تک ٹہلتے رہے ہیں۔",
    "th": "เช้านี้อากาศดีมากและเราเดินเล่นริมแม่น้ำเป็นเวลานาน",
    "ko": "오늘 아침 날씨가 좋아서 우리는 강가에서 오랫동안 산책했습니다.",
    "ta": "இன்று காலை வானிலை நன்றாக இருந்தது, நாங்கள் ஆற்றங்கரையில் நீண்ட நேரம் நடந்தோம்.",
    "te": "ఈ ఉదయం వాతావరణం బాగుంది మరియు మేము నది ఒడ్డున చాలా సేపు నడిచాము.",
    "kn": "ಇಂದು ಬೆಳಿಗ್ಗೆ ಹವಾಮಾನ ಚೆನ್ನಾಗಿತ್ತು ಮತ್ತು ನಾವು ನದಿಯ ದಡದಲ್ಲಿ ನಡೆದೆವು.",
    "bn": "আজ সকালে আবহাওয়া ভালো ছিল এবং আমরা নদীর ধারে অনেকক্ষণ হাঁটলাম।",
    "gu": "આજે સવારે હવામાન સારું હતું અને અમે નદી કિનારે લાંબો સમય ચાલ્યા.",
    "pa": "ਅੱਜ ਸਵੇਰੇ ਮੌਸਮ ਚੰਗਾ ਸੀ ਅਤੇ ਅਸੀਂ ਨਦੀ ਦੇ ਕੰਢੇ ਬਹੁਤ ਦੇਰ ਤੱਕ ਤੁਰੇ।",
}
ANSWERS = [
    "Hello there, friend.", "hello there my friend. this is all in lower case and so it is.",
    "THIS IS ALL IN CAPITAL LETTERS AND IT IS WRITTEN FOR YOU BY THE MODEL.",
    "My answer is yes.", "Well. My answer is maybe.", "My answer is no", "\"Quoted text.\"",
    "  \"Quoted text\"  ", "\"half quoted", "<<A title>>\nText follows.", "<< >>", "<<a\nb>>",
    "*one* and *two* and **three**", "**a** **b**", "* one\n* two\n* three", "- a\n- b",
    "* a\n** b\n - c", "[name] and [address] [x]", "[]", "{\"a\": [1, 2]}",
    "```json\n{\"a\": 1}\n```", "```\n[1]\n```", "{'a': 1}", "P.S. I like it.",
    "Text.\n\np. s. more", "P.P.S forget it", "p. p. s. x", "PS I like it",
    "One.\n***\nTwo.", "***\nOne.\n***\nTwo.\n***", "One.\n******\nTwo.",
    "Same.******Same.", "a****** ******b", "SECTION 1\na\nSECTION 2\nb", "Section 1 x",
    "PARAGRAPH 1 a PARAGRAPH 2 b", "Day 1: x Day 2: y Day 3: z Day 4", "One\n\nTwo\n\nThree",
    "weekend is here\n\nTwo\n\nThree\n\nFour", "a\n\n\"President, b\n\nc", "A B CC DD e",
    "NASA and the FBI told the CIA about the USA and the UK ok", "the rock was rock",
    "rocks are not a word", "story story story", "Storytime", "war and peace",
    "t t t t t t t t o o o ! ! # # # #", "Is there anything else I can help with?",
    "So: hope you agree with me.", "x" * 40, " ".join(["word"] * 299),
    " ".join(["word"] * 300), " ".join(["word"] * 801), "", "   ",
]


def judge(name, args, answer):
    check = instructions_registry.INSTRUCTION_DICT[name](name)
    check.build_description(**args)
    return bool(answer.strip() and check.check_following(answer))


def main():
    data = sys.argv[1]
    kinds = {}
    with open(data + "/ifeval/en_input_data.jsonl", encoding="utf-8") as f:
        for line in f:
            row = json.loads(line)
            for name, args in zip(row["instruction_id_list"], row["kwargs"]):
                args = {k: v for k, v in args.items() if v is not None}
                if not args.get("letter", "a").isalpha():
                    continue  # the harness would draw another letter by chance
                seen = kinds.setdefault(name, [])
                if args not in seen and len(seen) < 3:
                    seen.append(args)
    for name, all_args in sorted(kinds.items()):
        plain = name[len("en:"):]
        for args in all_args:
            answers = ANSWERS
            if plain == "length_constraints:number_sentences":
                n = args["num_sentences"]
                answers = [" ".join("This is sentence number %s of the text." % "abcdefgh"[i % 8]
                                    for i in range(k)) for k in (1, n - 1, n, n + 1) if k > 0]
            elif plain == "language:response_language":
                answers = [PROSE[args["language"]], PROSE["en"], PROSE["de"]]
            elif plain == "combination:repeat_prompt":
                prompt = args["prompt_to_repeat"]
                answers = [prompt + "\nAnswer.", prompt.upper(), "Answer. " + prompt]
            elif plain == "startend:end_checker":
                answers = ANSWERS + ["Text. " + args["end_phrase"],
                                     "\"Text. %s\"" % args["end_phrase"].upper(),
                                     args["end_phrase"] + " Text."]
            elif plain == "keywords:existence":
                words = args["keywords"]
                answers = [" ".join(words), " ".join(words).upper(), " ".join(words[1:]),
                           "x".join(words)]
            elif plain.startswith("change_case:english"):
                answers = [a for a in ANSWERS if not a.strip() or len(a.split()) > 8]
                answers = [a for a in answers if "word word" not in a and "t t t" not in a]
            if plain == "length_constraints:number_sentences":
                instructions_util.count_sentences = lambda text: text.count(".")
            for answer in answers:
                print(json.dumps({"id": name, "args": args, "answer": answer,
                                  "follows": judge(plain, args, answer)},
                                 ensure_ascii=False))
    for code, text in sorted(PROSE.items()):
        print(json.dumps({"language": code, "answer": text,
                          "detected": langdetect.detect(text)}, ensure_ascii=False))


main()
