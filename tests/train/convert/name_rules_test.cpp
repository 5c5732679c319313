#include "train/convert/name_rules.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Names = std::vector<std::string>;
using Renamed = std::map<std::string, std::string>;

TEST_CASE("the first rule that matches a whole name counts", "[train]") {
  const NameRules rules("map.txt",
                        "# of another program\n"
                        "\n"
                        "  blocks\\.(\\d+)\\.w => h.$1.weight \r\n"
                        "blocks\\.(.*) => other.$1\n"
                        "scratch\\..* =>\n");
  CHECK(rules.applied("blocks.3.w") == "h.3.weight");
  CHECK(rules.applied("blocks.3.wx") == "other.3.wx");
  CHECK(rules.applied("my.blocks.3.w") == "my.blocks.3.w");
  CHECK(rules.applied("scratch.a").empty());
  CHECK(rules.applied("scratch") == "scratch");
  CHECK(NameRules().applied("a") == "a");
}

TEST_CASE("rules that apply to nothing are told by their lines", "[train]") {
  const NameRules rules("map.txt", "a.* => x\n# b\nab => y\nzzz => z\n");
  CHECK(rules.idle(Names{"ab", "c"}) == Names{"map.txt, line 3", "map.txt, line 4"});
  CHECK(rules.idle(Names{"zzz", "a"}) == Names{"map.txt, line 3"});
  CHECK(rules.idle({}).size() == 3);
  CHECK(unwrapped(Names{"module.a", "module.b"}) == Names{"a", "b"});
}

TEST_CASE("a rule that is wrong is named by its line", "[train]") {
  CHECK_THROWS_WITH(NameRules("map.txt", "a => b\nno arrow\n"),
                    Catch::Contains("map.txt, line 2") && Catch::Contains("PATTERN => NAME"));
  CHECK_THROWS_WITH(NameRules("map.txt", "\n => b"), Catch::Contains("map.txt, line 2"));
  CHECK_THROWS_WITH(NameRules("map.txt", "a( => b"), Catch::Contains("map.txt, line 1"));
  const NameRules no_group("map.txt", "a => $1");
  CHECK_THROWS_WITH(no_group.applied("a"), Catch::Contains("map.txt, line 1"));
  const NameRules endless("map.txt", "((a|aa)+)+[bc] => c");
  CHECK_THROWS_AS(endless.applied(std::string(60, 'a')), DataError);
}

TEST_CASE("wrappers that all names have are taken off", "[train]") {
  const NameRules none;
  CHECK(renamed(Names{"module.a", "module.b.c"}, none) ==
        Renamed{{"a", "module.a"}, {"b.c", "module.b.c"}});
  CHECK(renamed(Names{"module._orig_mod.a", "module._orig_mod.b"}, none) ==
        Renamed{{"a", "module._orig_mod.a"}, {"b", "module._orig_mod.b"}});
  CHECK(renamed(Names{"module.a", "b"}, none) == Renamed{{"module.a", "module.a"}, {"b", "b"}});
  CHECK(renamed(Names{}, none).empty());
}

TEST_CASE("the model of a program that calls it so is found inside, and a body stays", "[train]") {
  const NameRules none;
  const Names bodies{"model.embed_tokens.weight", "model.norm.weight"};
  CHECK(unwrapped(bodies) == bodies);
  CHECK(unwrapped(Names{"model.model.norm.weight", "model.lm_head.weight"}) ==
        Names{"model.norm.weight", "lm_head.weight"});
  CHECK(unwrapped(Names{"module.model.transformer.wte.weight"}) == Names{"transformer.wte.weight"});
}

TEST_CASE("two tensors cannot become one", "[train]") {
  const NameRules rules("map.txt", "[ab] => c\nd =>\n");
  CHECK_THROWS_WITH(renamed(Names{"a", "b"}, rules), Catch::Contains("a and b would both be c"));
  CHECK(renamed(Names{"a", "d"}, rules) == Renamed{{"c", "a"}});
}

}  // namespace
}  // namespace ds
