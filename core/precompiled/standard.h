// What nearly every source includes of fmt and the standard library, in one precompiled header:
// parsing it takes longer than what is left of many files. No source includes this file: each
// includes what it uses, and compiles without it (-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

// The library has formatting into a buffer of characters compiled in, but release 9 does not say
// so: every file that formats or logs would compile it once more, four seconds each.
#if FMT_VERSION / 10000 == 9
FMT_BEGIN_NAMESPACE
namespace detail {
extern template void vformat_to<char>(buffer<char>&, basic_string_view<char>,
                                      basic_format_args<FMT_BUFFER_CONTEXT(type_identity_t<char>)>,
                                      locale_ref);
}
FMT_END_NAMESPACE
#endif
