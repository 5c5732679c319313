#include "launcher/process/credentials.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <array>
#include <span>

#include "core/status/error.h"
#include "core/text/secrecy.h"

namespace ds {
namespace {

constexpr size_t kNameBytes = 16;

}  // namespace

std::string random_bytes(size_t count) {
  std::string bytes(count, '\0');
  fill_random(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());  // a secret leaves no shorter copies behind
  for (const char byte : bytes) {
    out += kDigits[static_cast<unsigned char>(byte) >> 4];
    out += kDigits[static_cast<unsigned char>(byte) & 15U];
  }
  return out;
}

std::string sha256_hex(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  const int done =
      EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  DS_CHECK(done == 1, "sha256: libcrypto refused to digest {} bytes", text.size());
  return to_hex({reinterpret_cast<const char*>(digest.data()), size});
}

std::string random_server_name() { return to_hex(random_bytes(kNameBytes)) + ".invalid"; }

bool equal_secrets(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace ds
