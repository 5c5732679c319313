#include "data/tokenizer/split/scripts.h"

#include <algorithm>
#include <array>

#include "data/tokenizer/split/pattern.h"

namespace ds {
namespace {

// The scripts of Unicode 14 (UAX 24) but for those that are taken for Han below.
constexpr std::array kScripts{"Adlam",
                              "Ahom",
                              "Anatolian_Hieroglyphs",
                              "Arabic",
                              "Armenian",
                              "Avestan",
                              "Balinese",
                              "Bamum",
                              "Bassa_Vah",
                              "Batak",
                              "Bengali",
                              "Bhaiksuki",
                              "Bopomofo",
                              "Brahmi",
                              "Braille",
                              "Buginese",
                              "Buhid",
                              "Canadian_Aboriginal",
                              "Carian",
                              "Caucasian_Albanian",
                              "Chakma",
                              "Cham",
                              "Cherokee",
                              "Chorasmian",
                              "Coptic",
                              "Cuneiform",
                              "Cypriot",
                              "Cypro_Minoan",
                              "Cyrillic",
                              "Deseret",
                              "Devanagari",
                              "Dives_Akuru",
                              "Dogra",
                              "Duployan",
                              "Egyptian_Hieroglyphs",
                              "Elbasan",
                              "Elymaic",
                              "Ethiopic",
                              "Georgian",
                              "Glagolitic",
                              "Gothic",
                              "Grantha",
                              "Greek",
                              "Gujarati",
                              "Gunjala_Gondi",
                              "Gurmukhi",
                              "Hangul",
                              "Hanifi_Rohingya",
                              "Hanunoo",
                              "Hatran",
                              "Hebrew",
                              "Imperial_Aramaic",
                              "Inherited",
                              "Inscriptional_Pahlavi",
                              "Inscriptional_Parthian",
                              "Javanese",
                              "Kaithi",
                              "Kannada",
                              "Kayah_Li",
                              "Kharoshthi",
                              "Khitan_Small_Script",
                              "Khmer",
                              "Khojki",
                              "Khudawadi",
                              "Lao",
                              "Latin",
                              "Lepcha",
                              "Limbu",
                              "Linear_A",
                              "Linear_B",
                              "Lisu",
                              "Lycian",
                              "Lydian",
                              "Mahajani",
                              "Makasar",
                              "Malayalam",
                              "Mandaic",
                              "Manichaean",
                              "Marchen",
                              "Masaram_Gondi",
                              "Medefaidrin",
                              "Meetei_Mayek",
                              "Mende_Kikakui",
                              "Meroitic_Cursive",
                              "Meroitic_Hieroglyphs",
                              "Miao",
                              "Modi",
                              "Mongolian",
                              "Mro",
                              "Multani",
                              "Myanmar",
                              "Nabataean",
                              "Nandinagari",
                              "New_Tai_Lue",
                              "Newa",
                              "Nko",
                              "Nushu",
                              "Nyiakeng_Puachue_Hmong",
                              "Ogham",
                              "Ol_Chiki",
                              "Old_Hungarian",
                              "Old_Italic",
                              "Old_North_Arabian",
                              "Old_Permic",
                              "Old_Persian",
                              "Old_Sogdian",
                              "Old_South_Arabian",
                              "Old_Turkic",
                              "Old_Uyghur",
                              "Oriya",
                              "Osage",
                              "Osmanya",
                              "Pahawh_Hmong",
                              "Palmyrene",
                              "Pau_Cin_Hau",
                              "Phags_Pa",
                              "Phoenician",
                              "Psalter_Pahlavi",
                              "Rejang",
                              "Runic",
                              "Samaritan",
                              "Saurashtra",
                              "Sharada",
                              "Shavian",
                              "Siddham",
                              "SignWriting",
                              "Sinhala",
                              "Sogdian",
                              "Sora_Sompeng",
                              "Soyombo",
                              "Sundanese",
                              "Syloti_Nagri",
                              "Syriac",
                              "Tagalog",
                              "Tagbanwa",
                              "Tai_Le",
                              "Tai_Tham",
                              "Tai_Viet",
                              "Takri",
                              "Tamil",
                              "Tangsa",
                              "Tangut",
                              "Telugu",
                              "Thaana",
                              "Thai",
                              "Tibetan",
                              "Tifinagh",
                              "Tirhuta",
                              "Toto",
                              "Ugaritic",
                              "Vai",
                              "Vithkuqi",
                              "Wancho",
                              "Warang_Citi",
                              "Yezidi",
                              "Yi",
                              "Zanabazar_Square"};

// A character of the script, then what is of it or of none: spaces, and code points without one.
std::string run_of(const std::string& script) {
  return "[" + script + "][" + script + "\\x20\\p{sc:Unknown}]*";
}

}  // namespace

bool is_script(std::string_view name) {
  constexpr std::array<std::string_view, 4> kOthers{"Common", "Han", "Hiragana", "Katakana"};
  return std::ranges::find(kOthers, name) != kOthers.end() ||
         std::ranges::find(kScripts, name, [](const char* script) {
           return std::string_view(script);
         }) != kScripts.end();
}

std::shared_ptr<const Pattern> script_runs() {
  std::string pattern = run_of("\\p{sc:Han}\\p{sc:Hiragana}\\p{sc:Katakana}\\x{30fc}");
  // The long sign of kana, which is Han above, is Common; so is the space, which begins no run.
  pattern += "|(?![\\x20\\x{30fc}])\\p{sc:Common}(?:(?!\\x{30fc})[\\p{sc:Common}\\p{sc:Unknown}])*";
  for (const char* const script : kScripts)
    pattern += "|" + run_of("\\p{sc:" + std::string(script) + "}");
  return std::make_shared<Regex>(pattern);
}

}  // namespace ds
