// Secrets of one job: random tokens, digests, comparison in constant time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ds {

// What fill_random() gives, with its errors.
std::string random_bytes(size_t count);
std::string to_hex(std::string_view bytes);
// What a TLS client may call a server that has no name, so that who knows it is told from who does
// not: nobody can guess it. Under .invalid there are no hosts (RFC 2606).
std::string random_server_name();
std::string sha256_hex(std::string_view text);

// Takes the same time wherever the first difference is.
bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace ds
