// Lists in short form (pure): Slurm's node lists "gpu[01-16],login1", core lists "0,2-4,6", and
// node counts "N" or "MIN:MAX". Every expansion is bounded before anything is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

inline constexpr size_t kMaxNodes = 65536;

// Names separated by commas; each may hold bracketed lists of numbers and ranges, several of them
// multiply, the first varying slowest. A range is padded with zeros to the width of its lower end
// when that begins with 0. Throws UsageError "node list:COLUMN: ..." for unbalanced or nested
// brackets, an empty name or range, a range that descends, a name that require_host_name refuses,
// and more than kMaxNodes names.
std::vector<std::string> expand_node_list(std::string_view text);

// A name that is safe in a command line and means one host: at most 253 of A-Z a-z 0-9 . _ -, not
// beginning with - or . ; or a literal IPv6 address. A user may stand before it, "user@". Throws
// UsageError that names what is wrong.
void require_host_name(std::string_view name);
bool is_ipv6_address(std::string_view name);  // without brackets, scope and user

// Ascending numbers and ranges that do not overlap, separated by commas. Throws UsageError.
std::vector<int> parse_core_list(std::string_view text);

// "4" is {4, -1}; "2:8" is {2, 8} and needs elastic training. Throws UsageError.
struct NodeCount {
  int64_t min = 0;
  int64_t max = -1;  // not given
};
enum class Elasticity { kOff, kOn };
NodeCount parse_node_count(std::string_view text, Elasticity elasticity);

// A whole number with optional sign, white space around it allowed; throws UsageError that calls it
// `what`.
int64_t parse_whole_number(std::string_view text, std::string_view what);

}  // namespace ds
