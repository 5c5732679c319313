#include "launcher/addresses.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>

#include "core/error.h"
#include "core/file.h"

namespace ds {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

std::string literal_text(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const int error = getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text.data() : "";
}

AddressList parse_literal(const std::string& literal) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  // Some port has to stand there; nothing is sent.
  if (getaddrinfo(literal.c_str(), "9", &hints, &found) != 0) {
    throw CommError(fmt::format("'{}' is no literal address", literal));
  }
  return {found, &freeaddrinfo};
}

// One question to the resolver. It writes into this, so it stays where it is until answered.
struct Question {
  std::string name;
  addrinfo hints{};
  gaicb request{};
};

ResolvedHost answer_of(Question& question, std::chrono::milliseconds limit) {
  int error = gai_error(&question.request);
  if (error == EAI_INPROGRESS) {
    gai_cancel(&question.request);
    return {"", fmt::format("its name was not resolved within {} ms", limit.count())};
  }
  const AddressList list(question.request.ar_result, &freeaddrinfo);
  if (error != 0 || list == nullptr) {
    return {"", fmt::format("its name cannot be resolved: {}", gai_strerror(error))};
  }
  return {literal_text(list->ai_addr, list->ai_addrlen), ""};
}

}  // namespace

std::vector<ResolvedHost> resolve_hosts(const std::vector<std::string>& names,
                                        std::chrono::milliseconds limit) {
  // Not given back while a question is open: the resolver's threads may still write into it.
  auto* const questions = new std::deque<Question>(names.size());
  std::vector<gaicb*> requests;
  for (size_t i = 0; i < names.size(); ++i) {
    Question& question = (*questions)[i];
    question.name = names[i].substr(names[i].find('@') + 1);
    question.hints.ai_socktype = SOCK_STREAM;
    question.hints.ai_flags = AI_ADDRCONFIG;
    question.request.ar_name = question.name.c_str();
    question.request.ar_request = &question.hints;
    requests.push_back(&question.request);
  }
  const int count = static_cast<int>(requests.size());
  bool open = getaddrinfo_a(GAI_NOWAIT, requests.data(), count, nullptr) == 0;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (open && std::chrono::steady_clock::now() < deadline) {
    open = false;
    std::vector<const gaicb*> waiting;
    for (gaicb* const request : requests) {
      if (gai_error(request) == EAI_INPROGRESS) waiting.push_back(request);
    }
    if (waiting.empty()) break;
    open = true;
    const timespec slice{0, 50'000'000};
    gai_suspend(waiting.data(), static_cast<int>(waiting.size()), &slice);
  }
  std::vector<ResolvedHost> out;
  bool all_answered = true;
  for (Question& question : *questions) {
    all_answered = all_answered && gai_error(&question.request) != EAI_INPROGRESS;
    out.push_back(answer_of(question, limit));
  }
  if (all_answered) delete questions;
  return out;
}

std::string local_address_towards(const std::string& literal) {
  const AddressList target = parse_literal(literal);
  const Fd socket(::socket(target->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  // Connecting a datagram socket chooses a route and an address, and sends nothing.
  if (!socket.valid() || connect(socket.get(), target->ai_addr, target->ai_addrlen) != 0 ||
      getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    throw CommError(fmt::format("no route to {}: {}", literal, std::strerror(errno)));
  }
  return literal_text(reinterpret_cast<sockaddr*>(&own), size);
}

bool is_loopback_address(const std::string& literal) {
  const AddressList list = parse_literal(literal);
  if (list->ai_family == AF_INET) {
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(list->ai_addr);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(list->ai_addr)->sin6_addr);
}

}  // namespace ds
