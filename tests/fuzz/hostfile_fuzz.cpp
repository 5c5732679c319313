// Fuzzes hostfiles in both dialects, filters over what they say, and world information.
#include "launcher/decide/hosts/host_filter.h"
#include "launcher/decide/hosts/hostfile.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto dialect = data[0] % 2 == 0 ? ds::HostDialect::kDeepSpeed : ds::HostDialect::kDslaunch;
  ds::fuzz::expect_refusal_or_success([&] {
    // The first line may be a filter; the hosts follow.
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view hosts = end < text.size() ? text.substr(end + 1) : text;
    const ds::HostPool pool = ds::parse_hostfile(hosts, "hosts", dialect);
    int64_t slots = 0;
    for (const ds::Host& host : pool) slots += std::min<int64_t>(host.slots, 1 << 16);
    if (slots > 1 << 16) return;
    const std::string_view filter = text.substr(0, end);
    ds::select_slots(pool, data[0] % 4 < 2 ? filter : "", data[0] % 4 < 2 ? "" : filter, dialect);
  });
  ds::fuzz::expect_refusal_or_success([&] { ds::decode_world_info(text); });
  return 0;
}
