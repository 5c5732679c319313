// Keys whose values are nobody else's business, in whatever section they stand: they are neither
// written (run directories, checkpoints, what monitors upload, what ranks are told) nor shown.
#pragma once

#include <string_view>

namespace ds {

inline bool is_secret_key(std::string_view key) { return key == "api_key"; }

}  // namespace ds
