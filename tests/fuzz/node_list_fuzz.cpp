// Fuzzes node lists, core lists and node counts; every name that comes out must be a safe one.
#include "launcher/decide/hosts/node_list.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ds::fuzz::expect_refusal_or_success([&] {
    for (const std::string& name : ds::expand_node_list(text)) {
      if (name.find_first_of(" ;`$\n\0-", 0, 7) == 0) throw ds::InternalError("unsafe name");
    }
  });
  ds::fuzz::expect_refusal_or_success([&] { ds::parse_core_list(text); });
  ds::fuzz::expect_refusal_or_success([&] { ds::parse_node_count(text, ds::Elasticity::kOn); });
  return 0;
}
