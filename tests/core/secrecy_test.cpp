#include "core/text/secrecy.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "tests/support/catch.h"

namespace ds {
namespace {

// In all that the string may write to, which a shorter one leaves alone.
bool holds(const std::string& text, char byte) {
  return std::memchr(text.data(), byte, text.capacity()) != nullptr;
}

}  // namespace

TEST_CASE("nothing of what was wiped is left", "[core][security]") {
  std::string secret(100, 'x');
  secret.resize(40);
  wipe(secret);
  CHECK(secret.empty());
  CHECK_FALSE(holds(secret, 'x'));
  std::array<char, 40> bytes{};
  bytes.fill('x');
  wipe(bytes);
  CHECK(std::ranges::count(bytes, 'x') == 0);
  std::vector<std::string> secrets{"one", std::string(100, 'x')};
  wipe(secrets);
  CHECK(secrets.empty());
}

TEST_CASE("what is taken from the front is not left at the end", "[core][security]") {
  std::string text = std::string(60, 'x') + std::string(30, 'y');
  drop_front(text, 60);
  CHECK(text == std::string(30, 'y'));
  CHECK_FALSE(holds(text, 'x'));
  drop_front(text, 10);
  CHECK(std::count(text.data(), text.data() + text.capacity(), 'y') == 20);
  drop_front(text, 0);
  drop_front(text, 20);
  CHECK(text.empty());
  CHECK_FALSE(holds(text, 'y'));
}

TEST_CASE("a growing secret keeps its bytes", "[core][security]") {
  std::string text;
  std::string expected;
  for (int i = 0; i < 200; ++i) {
    const std::string more(static_cast<size_t>(i % 7), static_cast<char>('a' + i % 26));
    append_secret(text, more);
    expected += more;
  }
  CHECK(text == expected);
}

TEST_CASE("memory that is given back is overwritten", "[core][security]") {
  void* memory = WipingMemory::allocate(300, "", 0);
  std::memset(memory, 'x', 300);
  memory = WipingMemory::resize(memory, 600, "", 0);
  const auto* const kept = static_cast<const char*>(memory);
  CHECK(std::count(kept, kept + 300, 'x') == 300);
  std::memset(memory, 'z', 600);
  WipingMemory::release(memory, "", 0);
  for (const size_t bytes : {size_t{300}, size_t{600}}) {
    // The allocator gives out again what was given back last; what it adds itself is short.
    char* const again = static_cast<char*>(WipingMemory::allocate(bytes, "", 0));
    CHECK(std::count(again, again + bytes, bytes == 300 ? 'x' : 'z') < 16);
    WipingMemory::release(again, "", 0);
  }
  CHECK(WipingMemory::allocate(0, "", 0) == nullptr);
  CHECK(WipingMemory::resize(nullptr, 0, "", 0) == nullptr);
  CHECK(WipingMemory::resize(WipingMemory::allocate(1, "", 0), 0, "", 0) == nullptr);
  WipingMemory::release(nullptr, "", 0);
}

TEST_CASE("a process that forbids core dumps leaves none, nor do those that it starts",
          "[core][security]") {
  const pid_t child = ::fork();
  if (child == 0) {
    forbid_core_dumps();
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      rlimit limit{};
      ::getrlimit(RLIMIT_CORE, &limit);
      ::_exit(limit.rlim_cur <= 1 && limit.rlim_max <= 1 ? 0 : 1);
    }
    int status = 0;
    ::waitpid(grandchild, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a process that hides can be forbidden core dumps too, and is hidden",
          "[core][security]") {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool open_before = ::prctl(PR_GET_DUMPABLE) == 1;
    hide_from_same_user();
    forbid_core_dumps();
    forbid_core_dumps();  // a second time changes nothing
    const bool hidden = ::prctl(PR_GET_DUMPABLE) == 0;
    ::_exit(hidden ? 0 : (open_before ? 1 : 2));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a secret that has room grows where it is", "[core][security]") {
  std::string text;
  text.reserve(100);
  const char* const before = text.data();
  append_secret(text, std::string(60, 'a'));
  append_secret(text, std::string(40, 'b'));
  CHECK(text.data() == before);
  append_secret(text, "");
  CHECK(text.size() == 100);
  append_secret(text, "c");
  CHECK(text == std::string(60, 'a') + std::string(40, 'b') + "c");
  CHECK(text.capacity() >= 200);  // doubled, so that a long secret is not copied at every byte
}

TEST_CASE("random bytes fill what they are asked for, and are others each time",
          "[core][security]") {
  std::vector<std::byte> once(1000), again(1000);
  fill_random(once);
  fill_random(again);
  CHECK(once != again);
  const auto zeros = std::ranges::count(once, std::byte{0});
  CHECK(zeros < 100);  // 4 are to be expected
  CHECK_NOTHROW(fill_random({}));
}

TEST_CASE("memory that shrinks keeps its front", "[core][security]") {
  auto* memory = static_cast<char*>(WipingMemory::allocate(600, "", 0));
  for (int i = 0; i < 600; ++i) memory[i] = static_cast<char>(i % 100);
  memory = static_cast<char*>(WipingMemory::resize(memory, 50, "", 0));
  for (int i = 0; i < 50; ++i) REQUIRE(memory[i] == static_cast<char>(i % 100));
  WipingMemory::release(memory, "", 0);
  auto* const fresh = static_cast<char*>(WipingMemory::resize(nullptr, 10, "", 0));
  REQUIRE(fresh != nullptr);
  WipingMemory::release(fresh, "", 0);
}

}  // namespace ds
