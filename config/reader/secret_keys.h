// Keys whose values are nobody else's business, in whatever section they stand: they are neither
// written (run directories, checkpoints, what monitors upload, what ranks are told) nor shown in
// messages. Keys that the configuration does not know are told by their names.
#pragma once

#include <string>
#include <string_view>

namespace ds {

inline constexpr std::string_view kKeptSecret = "(kept secret)";

// "api_key", "HF_TOKEN", "password"; not "max_tokens", nor the "experiment_key" of Comet, which is
// a name.
bool is_secret_key(std::string_view key);

// The text without the user and the password of URLs.
std::string without_passwords(std::string_view text);

// An override as messages show it: "comet.api_key=(kept secret)".
std::string shown_override(std::string_view text);

}  // namespace ds
