// A peer of the coordinator that keeps to no rules: bare TCP, bare TLS, bytes as one likes.
#pragma once

#include <arpa/inet.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <string>
#include <string_view>

#include "core/files/file.h"
#include "tests/support/catch.h"

namespace ds {

inline int port_of(const std::string& endpoint) {
  return std::stoi(endpoint.substr(endpoint.rfind(':') + 1));
}

inline Fd dial(int port) {
  signal(SIGPIPE, SIG_IGN);  // the other side closes when it likes, and OpenSSL writes
  Fd connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(connection.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
  const timeval limit{10, 0};
  setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  return connection;
}

// Whether the other side closes within 10 s; what it says until then is dropped.
inline bool is_closed(int connection) {
  std::string bytes(4096, '\0');
  while (true) {
    const ssize_t got = recv(connection, bytes.data(), bytes.size(), 0);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) {
      return true;
    }
    if (got < 0) {
      return false;
    }
  }
}

class RawTls {
 public:
  // Empty PEM: without a certificate. The server is not checked.
  RawTls(int port, const std::string& certificate, const std::string& key,
         int max_version = TLS1_3_VERSION)
      : connection_(dial(port)), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_clear_options(context_,
                          SSL_OP_NO_TLSv1_2);  // the coordinator's default of this process
    SSL_CTX_set_max_proto_version(context_, max_version);
    if (!certificate.empty()) {
      BIO* const certificate_text = BIO_new_mem_buf(certificate.data(), -1);
      BIO* const key_text = BIO_new_mem_buf(key.data(), -1);
      X509* const x = PEM_read_bio_X509(certificate_text, nullptr, nullptr, nullptr);
      EVP_PKEY* const k = PEM_read_bio_PrivateKey(key_text, nullptr, nullptr, nullptr);
      REQUIRE(SSL_CTX_use_certificate(context_, x) == 1);
      REQUIRE(SSL_CTX_use_PrivateKey(context_, k) == 1);
      X509_free(x);
      EVP_PKEY_free(k);
      BIO_free(certificate_text);
      BIO_free(key_text);
    }
    const unsigned char protocol[] = {2, 'h', '2'};
    SSL_CTX_set_alpn_protos(context_, protocol, sizeof(protocol));
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, connection_.get());
    shaken_ = SSL_connect(ssl_) == 1;
  }
  RawTls(const RawTls&) = delete;
  RawTls& operator=(const RawTls&) = delete;
  ~RawTls() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }

  void send(std::string_view bytes) {
    if (shaken_ && !bytes.empty()) {
      SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
    }
  }
  // What comes until `wanted` is in it or the connection ends.
  std::string read_until(std::string_view wanted) {
    std::string all;
    std::string bytes(4096, '\0');
    while (shaken_ && (wanted.empty() || all.find(wanted) == std::string::npos)) {
      const int got = SSL_read(ssl_, bytes.data(), static_cast<int>(bytes.size()));
      if (got <= 0) {
        ended_ = true;
        break;
      }
      all.append(bytes, 0, static_cast<size_t>(got));
    }
    return all;
  }
  // A server that accepts the certificate answers the HTTP/2 greeting.
  bool is_let_in() {
    send(greeting());
    std::string byte(1, '\0');
    return shaken_ && SSL_read(ssl_, byte.data(), 1) == 1;
  }
  bool ended() const { return ended_; }

  // An HTTP/2 frame.
  static std::string frame(int kind, int flags, int stream, std::string_view payload) {
    std::string out;
    for (const int shift : {16, 8, 0}) {
      out += static_cast<char>(payload.size() >> shift);
    }
    out += static_cast<char>(kind);
    out += static_cast<char>(flags);
    for (const int shift : {24, 16, 8, 0}) {
      out += static_cast<char>(stream >> shift);
    }
    return out.append(payload);
  }
  static std::string greeting() { return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, ""); }
  // Opens stream 1 for a call of `path`, with extra headers.
  static std::string call(const std::string& path, const std::string& more = "") {
    return frame(1, 4, 1,
                 header(":method", "POST") + header(":scheme", "https") + header(":path", path) +
                     header(":authority", "x") + header("te", "trailers") +
                     header("content-type", "application/grpc") + more);
  }
  static std::string header(std::string_view name, std::string_view value) {
    REQUIRE((name.size() < 127 && value.size() < 127));
    std::string out(1, '\0');  // literal, not indexed, no Huffman code
    out += static_cast<char>(name.size());
    out.append(name);
    out += static_cast<char>(value.size());
    return out.append(value);
  }

 private:
  const Fd connection_;
  SSL_CTX* const context_;
  SSL* ssl_ = nullptr;
  bool shaken_ = false;
  bool ended_ = false;
};

}  // namespace ds
