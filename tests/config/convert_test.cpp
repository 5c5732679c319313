// One value into one field: what each type of field takes for its value, what it leaves alone, and
// what is said of a value that it refuses.
#include "config/reader/convert.h"

#include <limits>

#include "config/reader/json_reader.h"
#include "tests/support/catch.h"

namespace ds {

// A small enumeration with a second spelling.
enum class Fruit { kApple, kPear };
std::span<const EnumName> names_of(Fruit) {
  static constexpr EnumName kNames[] = {{"Apple", 0}, {"Pear", 1}, {"pyrus", 1}};
  return kNames;
}

namespace {

Value parsed(std::string_view text) { return read_config_value(text, {}); }

template <class T>
struct Taken {
  Stored stored = Stored::kDone;
  T value{};
};

// What becomes of a field of type T with the value `start`.
template <class T>
Taken<T> take(std::string_view text, const Spec& spec = {}, T start = {}) {
  Taken<T> taken{.stored = Stored::kDone, .value = std::move(start)};
  if constexpr (std::is_constructible_v<Slot, T*>) {
    taken.stored = store(parsed(text), {"field", Slot(&taken.value), spec});
  } else {
    taken.stored = store(parsed(text), {"field", Slot(EnumRef(taken.value)), spec});
  }
  return taken;
}

template <class T>
std::string refusal_of(std::string_view text, const Spec& spec = {}) {
  T value{};
  if constexpr (std::is_constructible_v<Slot, T*>) {
    return refusal(parsed(text), {"field", Slot(&value), spec});
  } else {
    return refusal(parsed(text), {"field", Slot(EnumRef(value)), spec});
  }
}

}  // namespace

TEST_CASE("booleans are read from 0 and 1 and from the words for them", "[config]") {
  for (const char* text : {"true", "1", "1.0", "\"true\"", "\"TRUE\"", "\"1\"", "\"on\"", "\"yes\"",
                           "\"Y\"", "\"t\""}) {
    CAPTURE(text);
    CHECK(take<bool>(text).stored == Stored::kDone);
    CHECK(take<bool>(text).value);
  }
  for (const char* text :
       {"false", "0", "0.0", "-0.0", "\"False\"", "\"0\"", "\"OFF\"", "\"no\"", "\"n\"", "\"F\""}) {
    CAPTURE(text);
    CHECK(take<bool>(text, {}, true).stored == Stored::kDone);
    CHECK_FALSE(take<bool>(text, {}, true).value);
  }
  for (const char* text :
       {"2", "-1", "0.5", "\"\"", "\"maybe\"", "\" true\"", "null", "[true]", "{a: true}"}) {
    CAPTURE(text);
    CHECK(take<bool>(text, {}, true).stored == Stored::kWrongKind);
    CHECK(take<bool>(text, {}, true).value);
  }
}

TEST_CASE("the boolean that a value stands for, if any, can be asked for", "[config]") {
  CHECK(boolean_of(parsed("\"yes\"")) == true);
  CHECK(boolean_of(parsed("0")) == false);
  CHECK_FALSE(boolean_of(parsed("2")).has_value());
  CHECK_FALSE(boolean_of(parsed("null")).has_value());
}

TEST_CASE("integers are read from whole numbers and digits", "[config]") {
  const std::vector<std::pair<const char*, int64_t>> cases = {
      {"7", 7},
      {"-7", -7},
      {"5e7", 50'000'000},
      {"-3.0", -3},
      {"true", 1},
      {"false", 0},
      {"\"12\"", 12},
      {"\" 12\\t\"", 12},
      {"\"+12\"", 12},
      {"\"-12\"", -12},
      {"\"12.000\"", 12},
      {"9223372036854775807", std::numeric_limits<int64_t>::max()},
      {"-9223372036854775808", std::numeric_limits<int64_t>::min()},
      {"-9223372036854775808.0", std::numeric_limits<int64_t>::min()}};
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    const auto taken = take<int64_t>(text, {}, 99);
    CHECK(taken.stored == Stored::kDone);
    CHECK(taken.value == expected);
  }
}

TEST_CASE("what is no whole number within 64 bits is no integer", "[config]") {
  for (const char* text :
       {"7.5", "1e19", "9223372036854775808", "-9223372036854775809e1", "\"\"", "\"12.\"",
        "\"12.5\"", "\"1e3\"", "\"+-1\"", "\"++1\"", "\"0x10\"", "\"1 2\"", "\"twelve\"",
        "\"9223372036854775808\"", "null", "[7]", "{}"}) {
    CAPTURE(text);
    const auto taken = take<int64_t>(text, {}, 99);
    CHECK(taken.stored == Stored::kWrongKind);
    CHECK(taken.value == 99);
  }
}

TEST_CASE("numbers are read from digits in quotes, finite ones only", "[config]") {
  const std::vector<std::pair<const char*, double>> cases = {
      {"7", 7},           {"0.5", 0.5},         {"true", 1},
      {"\"1e-3\"", 1e-3}, {"\" -2.5 \"", -2.5}, {"\".5\"", 0.5}};
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    CHECK(take<double>(text).stored == Stored::kDone);
    CHECK(take<double>(text).value == expected);
  }
  for (const char* text :
       {"\"inf\"", "\"nan\"", "\"-Infinity\"", "\"1e999\"", "\"\"", "\"1,5\"", "null", "[1]"}) {
    CAPTURE(text);
    CHECK(take<double>(text, {}, 4.0).stored == Stored::kWrongKind);
    CHECK(take<double>(text, {}, 4.0).value == 4.0);
  }
}

TEST_CASE("a field can refuse texts and booleans in the place of numbers", "[config]") {
  const Spec no_text{.meaning = "", .refuse_text = true};
  CHECK(take<int64_t>("\"5\"", no_text).stored == Stored::kWrongKind);
  CHECK(take<double>("\"5\"", no_text).stored == Stored::kWrongKind);
  CHECK(take<bool>("\"true\"", no_text).stored == Stored::kWrongKind);
  CHECK(take<int64_t>("5", no_text).stored == Stored::kDone);
  CHECK(take<bool>("1", no_text).value);
  const Spec no_boolean{.meaning = "", .refuse_boolean = true};
  CHECK(take<int64_t>("true", no_boolean).stored == Stored::kWrongKind);
  CHECK(take<double>("true", no_boolean).stored == Stored::kWrongKind);
  CHECK(take<int64_t>("\"5\"", no_boolean).value == 5);
}

TEST_CASE("strings are strings, without a NUL", "[config]") {
  CHECK(take<std::string>("\"\"").stored == Stored::kDone);
  CHECK(take<std::string>("word").value == "word");
  for (const char* text : {"5", "true", "null", "[\"x\"]", "\"a\\u0000\""}) {
    CAPTURE(text);
    CHECK(take<std::string>(text, {}, "old").stored == Stored::kWrongKind);
    CHECK(take<std::string>(text, {}, "old").value == "old");
  }
}

TEST_CASE("lists take each element by its own rules", "[config]") {
  CHECK(take<std::vector<int64_t>>("[1, \"2\", 3.0, true]").value ==
        std::vector<int64_t>{1, 2, 3, 1});
  CHECK(take<std::vector<int64_t>>("[]", {}, {7}).value.empty());
  CHECK(take<std::vector<std::string>>("[\"a\", \"b\"]").value ==
        std::vector<std::string>{"a", "b"});
  CHECK(take<std::vector<int64_t>>("[1, 2.5]", {}, {7}).stored == Stored::kWrongKind);
  CHECK(take<std::vector<int64_t>>("[1, 2.5]", {}, {7}).value == std::vector<int64_t>{7});
  CHECK(take<std::vector<double>>("[[1]]").stored == Stored::kWrongKind);
  CHECK(take<std::vector<double>>("[null]").stored == Stored::kWrongKind);
}

TEST_CASE("one element stands for a list where the field says so", "[config]") {
  const Spec one{.meaning = "", .one_or_list = true};
  CHECK(take<std::vector<std::string>>("\"a\"", one).value == std::vector<std::string>{"a"});
  CHECK(take<std::vector<int64_t>>("4", one).value == std::vector<int64_t>{4});
  CHECK(take<std::vector<int64_t>>("x", one, {7}).stored == Stored::kWrongKind);
  CHECK(take<std::vector<int64_t>>("4").stored == Stored::kWrongKind);
  CHECK(take<std::vector<int64_t>>("{a: 4}", one).stored == Stored::kWrongKind);
}

TEST_CASE("a pair is a list of exactly two numbers", "[config]") {
  CHECK(take<Pair>("[0.9, \"0.95\"]").value == Pair{0.9, 0.95});
  for (const char* text : {"[]", "[1]", "[1, 2, 3]", "[1, x]", "1", "[1, null]"}) {
    CAPTURE(text);
    const Value value = text == std::string_view("[1, x]") ? parsed("[1, \"x\"]") : parsed(text);
    Pair pair{3, 4};
    const Spec spec;
    CHECK(store(value, {"field", Slot(&pair), spec}) == Stored::kWrongKind);
    CHECK(pair == Pair{3, 4});
  }
}

TEST_CASE("bounds are inclusive or not as they say, and hold for each element", "[config]") {
  const auto within = [](const char* text, const Spec& spec) {
    return take<double>(text, spec).stored == Stored::kDone;
  };
  CHECK(within("1", {.meaning = "", .min = 1.0}));
  CHECK_FALSE(within("0.999", {.meaning = "", .min = 1.0}));
  CHECK_FALSE(within("1", {.meaning = "", .above = 1.0}));
  CHECK(within("1.001", {.meaning = "", .above = 1.0}));
  CHECK(within("1", {.meaning = "", .max = 1.0}));
  CHECK_FALSE(within("1.001", {.meaning = "", .max = 1.0}));
  CHECK_FALSE(within("1", {.meaning = "", .below = 1.0}));
  CHECK(within("0.999", {.meaning = "", .below = 1.0}));
  const Spec unit{.meaning = "", .min = 0.0, .below = 1.0};
  CHECK(take<Pair>("[0, 0.5]", unit).stored == Stored::kDone);
  CHECK(take<Pair>("[0, 1]", unit).stored == Stored::kOutOfRange);
  CHECK(take<Pair>("[-1, 0]", unit).stored == Stored::kOutOfRange);
  CHECK(take<std::vector<int64_t>>("[0, 1]", unit).stored == Stored::kOutOfRange);
  CHECK(take<std::vector<int64_t>>("[0, 0]", unit).stored == Stored::kDone);
  CHECK(take<std::optional<int64_t>>("3", unit).stored == Stored::kOutOfRange);
}

TEST_CASE("a value out of range is stored, so that what depends on it is judged by it",
          "[config]") {
  CHECK(take<int64_t>("-5", {.meaning = "", .min = 0.0}, 1).value == -5);
  CHECK(take<std::optional<int64_t>>("-5", {.meaning = "", .min = 0.0}).value == -5);
}

TEST_CASE("null takes the value away where a field can be without one", "[config]") {
  CHECK(take<std::optional<int64_t>>("null", {}, 5).stored == Stored::kDone);
  CHECK_FALSE(take<std::optional<int64_t>>("null", {}, 5).value.has_value());
  for (const Spec& spec :
       {Spec{.meaning = "", .required = true}, Spec{.meaning = "", .refuse_null = true}}) {
    CHECK(take<std::optional<int64_t>>("null", spec, 5).stored == Stored::kWrongKind);
    CHECK(take<std::optional<int64_t>>("null", spec, 5).value == 5);
    std::optional<int64_t> value;
    CHECK_FALSE(takes_null({"field", Slot(&value), spec}));
  }
  const Spec plain;
  std::optional<int64_t> optional;
  int64_t number = 0;
  Value any;
  Fruit fruit = Fruit::kPear;
  std::optional<Fruit> perhaps = Fruit::kPear;
  CHECK(takes_null({"field", Slot(&optional), plain}));
  CHECK_FALSE(takes_null({"field", Slot(&number), plain}));
  CHECK(takes_null({"field", Slot(&any), plain}));
  CHECK_FALSE(takes_null({"field", Slot(EnumRef(fruit)), plain}));
  CHECK(takes_null({"field", Slot(EnumRef(perhaps)), plain}));
}

TEST_CASE("enumerators are read by any of their names, in the case that the field asks for",
          "[config]") {
  CHECK(take<Fruit>("Pear").value == Fruit::kPear);
  CHECK(take<Fruit>("pyrus").value == Fruit::kPear);
  CHECK(take<Fruit>("pear").stored == Stored::kWrongKind);
  const Spec any_case{.meaning = "", .letter_case = LetterCase::kIgnored};
  CHECK(take<Fruit>("pEAR", any_case).value == Fruit::kPear);
  CHECK(take<Fruit>("pea", any_case).stored == Stored::kWrongKind);
  CHECK(take<Fruit>("1").stored == Stored::kWrongKind);
  CHECK(take<Fruit>("null", {}, Fruit::kPear).stored == Stored::kWrongKind);
  CHECK(take<std::optional<Fruit>>("null", {}, Fruit::kPear).value == std::nullopt);
  CHECK(take<std::optional<Fruit>>("Apple").value == Fruit::kApple);
  Fruit fruit = Fruit::kPear;
  CHECK(EnumRef(fruit).name() == "Pear");
  std::optional<Fruit> none;
  CHECK(EnumRef(none).name().empty());
}

TEST_CASE("free values are kept as they are, objects only where the field says so", "[config]") {
  CHECK(to_compact_json(take<Value>("[1, {a: null}]").value) == R"([1,{"a":null}])");
  const Spec objects{.meaning = "", .object_only = true};
  CHECK(take<Value>("{a: 1}", objects).stored == Stored::kDone);
  CHECK(take<Value>("null", objects).stored == Stored::kDone);
  CHECK(take<Value>("[1]", objects).stored == Stored::kWrongKind);
  CHECK(take<Value>("5", objects).stored == Stored::kWrongKind);
}

TEST_CASE("a refusal names the value, the type and the bounds", "[config]") {
  CHECK(refusal_of<int64_t>("-1", {.meaning = "", .min = 0.0}) == "got -1, expected integer >= 0");
  CHECK(refusal_of<double>("3", {.meaning = "", .above = 0.0, .max = 1.0}) ==
        "got 3, expected number > 0, <= 1");
  CHECK(refusal_of<double>("3", {.meaning = "", .min = 0.5, .below = 1.0}) ==
        "got 3, expected number >= 0.5, < 1");
  CHECK(refusal_of<bool>("[]") == "got [], expected boolean");
  CHECK(refusal_of<std::string>("5") == "got 5, expected string");
  CHECK(refusal_of<Pair>("5") == "got 5, expected list of two numbers");
  CHECK(refusal_of<std::optional<int64_t>>("x") == "got \"x\", expected integer or null");
  CHECK(refusal_of<std::optional<int64_t>>("x", {.meaning = "", .required = true}) ==
        "got \"x\", expected integer");
  CHECK(refusal_of<std::vector<int64_t>>("x") == "got \"x\", expected list of integers");
  CHECK(refusal_of<std::vector<double>>("{}", {.meaning = "", .one_or_list = true}) ==
        "got {}, expected number or list of numbers");
  CHECK(refusal_of<std::vector<std::string>>("5", {.meaning = "", .one_or_list = true}) ==
        "got 5, expected string or list of strings");
  CHECK(refusal_of<std::optional<std::vector<std::vector<std::string>>>>("5") ==
        "got 5, expected list of lists of strings or null");
  CHECK(refusal_of<Value>("5", {.meaning = "", .object_only = true}) ==
        "got 5, expected object or null");
  CHECK(refusal_of<Fruit>("5") == "got 5, expected one of Apple, Pear, pyrus");
  CHECK(refusal_of<std::optional<Fruit>>("5") == "got 5, expected one of Apple, Pear, pyrus, null");
}

TEST_CASE("a refusal guesses at what happened", "[config]") {
  CHECK_THAT(refusal_of<Fruit>("Aple"), Catch::EndsWith("; did you mean \"Apple\"?"));
  CHECK_THAT(refusal_of<Fruit>("RMSprop"),
             Catch::EndsWith("; PyTorch's RMSprop is not available in this build"));
  CHECK_THAT(refusal_of<Fruit>("plum"), Catch::EndsWith("pyrus"));
  CHECK_THAT(refusal_of<int64_t>("'5 \"b\": 6'"),
             Catch::EndsWith("; is a comma missing after it?"));
  CHECK_THAT(refusal_of<std::string>("\"a\\u0000\""),
             Catch::EndsWith("; a NUL character can be in no name or path"));
  CHECK_THAT(refusal_of<std::vector<std::string>>("[\"a\", \"\\u0000\"]"),
             Catch::EndsWith("; a NUL character can be in no name or path"));
  CHECK_THAT(refusal_of<int64_t>("[1, 2]"), Catch::Contains("are for autotuning"));
  CHECK_THAT(refusal_of<std::optional<bool>>("[true, false]"),
             Catch::Contains("are for autotuning"));
  CHECK_THAT(refusal_of<int64_t>("[1]"), !Catch::Contains("autotuning"));
  CHECK_THAT(refusal_of<std::string>("[\"a\", \"b\"]"), !Catch::Contains("autotuning"));
}

TEST_CASE("placeholders of templates are told from words", "[config]") {
  for (const char* text :
       {"$LR", "${lr}", "{{ lr }}", "<lr>", "GB_SIZE", "GB_SIZE,", "MICRO_BS_x", "_", "N_1"}) {
    CAPTURE(text);
    CHECK_THAT(refusal(Value::string(text), {"field", Slot(static_cast<int64_t*>(nullptr)), {}}),
               Catch::Contains("placeholder of a template"));
  }
  for (const char* text : {"lr", "BIG", "<lr", "lr>", "a_b_c_d", "Some_words", ""}) {
    CAPTURE(text);
    CHECK_THAT(refusal(Value::string(text), {"field", Slot(static_cast<int64_t*>(nullptr)), {}}),
               !Catch::Contains("placeholder"));
  }
}

TEST_CASE("effects of fields are told in words", "[config]") {
  CHECK(effect_text({.meaning = "", .effect = Effect::kUsed}) == "used");
  CHECK(effect_text({.meaning = "", .effect = Effect::kUsed, .only = {"a", "b"}}) ==
        "used; only `a`, `b` yet");
  CHECK(effect_text({.meaning = "", .effect = Effect::kNotYet}) == "not yet");
  CHECK(effect_text({.meaning = "", .effect = Effect::kNotYet, .only = {"a"}}) ==
        "not yet, but `a`");
  CHECK(effect_text({.meaning = "", .effect = Effect::kAlwaysSo, .here = "it rains"}) ==
        "always so: it rains");
  CHECK(effect_text(
            {.meaning = "", .effect = Effect::kAlwaysSo, .here = "it rains", .only = {"true"}}) ==
        "always so, as with `true`: it rains");
  CHECK(effect_text(
            {.meaning = "", .effect = Effect::kAlwaysSo, .here = "it rains", .only = {kNoValue}}) ==
        "always so: it rains");
}

}  // namespace ds
