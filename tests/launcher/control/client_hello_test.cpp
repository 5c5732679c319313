#include "launcher/control/client_hello.h"

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "tests/support/catch.h"

namespace ds {
namespace {

using State = ClientHello::State;

// What OpenSSL says first.
std::string hello_of(const char* server_name) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), out);
  if (server_name != nullptr) SSL_set_tlsext_host_name(ssl.get(), server_name);
  SSL_set_connect_state(ssl.get());
  SSL_do_handshake(ssl.get());  // waits for an answer
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out, &bytes);
  return {bytes, static_cast<size_t>(size)};
}

}  // namespace

TEST_CASE("the server name of a hello is read, whatever follows", "[launcher][security]") {
  const std::string hello = hello_of("0123abcd.invalid");
  for (const std::string& bytes : {hello, hello + "more"}) {
    const ClientHello read = read_client_hello(bytes);
    CHECK(read.state == State::kRead);
    CHECK(read.server_name == "0123abcd.invalid");
  }
  const std::string nameless = hello_of(nullptr);
  CHECK(read_client_hello(nameless).state == State::kRead);
  CHECK(read_client_hello(nameless).server_name.empty());
}

TEST_CASE("a part of a hello may become one", "[launcher][security]") {
  const std::string hello = hello_of("name.invalid");
  for (size_t size = 0; size < hello.size(); ++size) {
    CHECK(read_client_hello(std::string_view(hello).substr(0, size)).state == State::kIncomplete);
  }
}

TEST_CASE("what is no hello is none", "[launcher][security]") {
  using namespace std::string_literals;
  for (const std::string& bytes :
       {"G"s, "GET / HTTP/1.1\r\n\r\n"s, "\x17\x03\x03\0\1x"s, "\x16\x02"s, "\x16\x03\1\0\1\2"s,
        "\x16\x03\1\0\0"s, "\x16\x03\1\0\4\1\0\0\1"s, "\x16\x03\1\0\5\1\0\0\1\3"s,
        "\x16\x03\1\0\4\1\xff\xff\xff"s}) {
    CHECK(read_client_hello(bytes).state == State::kNone);
  }
}

TEST_CASE("no damaged hello is read beyond its end", "[launcher][security]") {
  const std::string hello = hello_of("name.invalid");
  for (size_t at = 0; at < hello.size(); ++at) {
    for (const char value : {'\0', '\x7f', '\xff'}) {
      std::string damaged = hello;
      damaged[at] = value;
      const std::unique_ptr<char[]> exact(new char[damaged.size()]);  // a sanitizer sees the end
      damaged.copy(exact.get(), damaged.size());
      const std::string_view name = read_client_hello({exact.get(), damaged.size()}).server_name;
      CHECK((name.empty() || (name.data() >= exact.get() &&
                              name.data() + name.size() <= exact.get() + damaged.size())));
    }
  }
}

}  // namespace ds
