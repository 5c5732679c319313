// The coordinator on a network, with real TLS over the loopback address.
#include "tests/launcher/tls_plane.h"

namespace ds {

TEST_CASE("a certified rank joins and attends over TLS", "[launcher][rankd][security]") {
  for (const char* address : {"127.0.0.1", "::1"}) {
    TlsPlane plane(2, address);
    const std::unique_ptr<ControlClient> client = connect_control(plane.bootstrap(1));
    CHECK(plane.join(*client).rank == 1);
    client->report_text("hello");
    while (plane.expect<control::RankMessage>().second.text() != "hello") {
    }
    plane.coordinator().send_to_all(control::CommandMessage::SAVE_NOW);
    std::optional<Command> command;
    while (!(command = client->poll())) {
      std::this_thread::yield();
    }
    CHECK(*command == Command::kSaveNow);
    CHECK(plane.finish(*client));
    CHECK(plane.coordinator().strangers_turned_away() == 0);
  }
}

}  // namespace ds
