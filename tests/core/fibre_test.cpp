#include "core/fibre/fibre.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("fibres take turns, and go on where they gave way", "[fibre]") {
  std::string order;
  const auto speak = [&](char first) {
    return [&order, first] {
      for (int i = 0; i < 3; ++i) {
        order += static_cast<char>(first + i);
        Fibre::give_way();
      }
    };
  };
  Fibre letters(speak('a')), digits(speak('1'));
  while (!letters.over() || !digits.over()) {
    letters.resume();
    digits.resume();
  }
  CHECK(order == "a1b2c3");
  letters.resume();  // it is over: nothing happens
  CHECK(order == "a1b2c3");
}

TEST_CASE("a fibre resumes others, and each knows itself", "[fibre]") {
  const Fibre* seen_outside = nullptr;
  const Fibre* seen_inside = nullptr;
  Fibre inner([&] {
    seen_inside = Fibre::running();
    Fibre::give_way();
  });
  Fibre outer([&] {
    inner.resume();
    seen_outside = Fibre::running();
    Fibre::give_way();
  });
  outer.resume();
  CHECK(seen_inside == &inner);
  CHECK(seen_outside == &outer);
  CHECK(Fibre::running() == nullptr);
  CHECK_FALSE(inner.over());
}

TEST_CASE("a fibre that is killed is unwound, and one that never began has nothing to unwind",
          "[fibre]") {
  const auto held = std::make_shared<int>(1);
  {
    const auto hold = [held] {
      const std::shared_ptr<int> own = held;
      Fibre::give_way();
      FAIL("it goes on after its death");
    };
    Fibre begun(hold), not_begun(hold);
    begun.resume();
    CHECK(held.use_count() == 5);  // here, in `hold`, in both bodies, on a stack
    begun.kill();
    CHECK(begun.over());
    CHECK(held.use_count() == 4);
  }
  CHECK(held.use_count() == 1);
}

TEST_CASE("what is being handled belongs to its fibre", "[fibre]") {
  const auto handle = [](const std::string& own) {
    return [own] {
      try {
        throw std::runtime_error(own);
      } catch (const std::runtime_error&) {
        Fibre::give_way();
        try {
          throw;
        } catch (const std::runtime_error& still) {
          CHECK(still.what() == own);
        }
      }
    };
  };
  Fibre first(handle("first")), second(handle("second"));
  first.resume();
  second.resume();
  CHECK(std::current_exception() == nullptr);
  first.resume();
  second.resume();
  CHECK(first.over());
  CHECK(second.over());
}

TEST_CASE("a stack is used again, and has room for what recurses", "[fibre]") {
  const auto sum_on_stack = [](int depth) {
    const auto sum = [](const auto& self, int left) -> int {
      volatile char frame[1024] = {1};
      return left == 0 ? 0 : frame[0] + self(self, left - 1);
    };
    return sum(sum, depth);
  };
  for (int i = 0; i < 1000; ++i) {
    int found = 0;
    Fibre fibre([&] { found = sum_on_stack(64); });
    fibre.resume();
    REQUIRE(found == 64);
  }
}

TEST_CASE("every thread has fibres of its own", "[fibre]") {
  std::vector<std::thread> threads;
  std::vector<int> counts(4);
  for (int& count : counts) {
    threads.emplace_back([&count] {
      std::vector<std::unique_ptr<Fibre>> fibres;
      for (int i = 0; i < 20; ++i) {
        fibres.push_back(std::make_unique<Fibre>([&count] {
          for (;; Fibre::give_way()) ++count;
        }));
      }
      for (int round = 0; round < 10; ++round) {
        for (const auto& fibre : fibres) fibre->resume();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(counts == std::vector<int>(4, 200));
}

}  // namespace
}  // namespace ds
