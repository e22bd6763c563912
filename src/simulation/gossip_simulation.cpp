#include "simulation/gossip_simulation.h"

#include <algorithm>
#include <utility>

namespace cohort {

GossipSimulation::GossipSimulation(const CenterSetup& setup, const VirtualPlace& place,
                                   std::span<const float> weights, MakeOwn makeOwn, Workbench& workbench)
    : ExchangeSimulation(setup, place, weights, std::move(makeOwn), workbench),
      visitors_(static_cast<std::size_t>(groupCount())),
      letter_(layout_.size()) {}

void GossipSimulation::hasFailed(int index) {
  ExchangeSimulation::hasFailed(index);
  visitor(index) = {};
}

void GossipSimulation::hasLeft(MemberId member) {
  for (int s = 0; s < serverCount(); ++s) store(s).leave(ownerOf(member));
}

std::vector<FloatBuffer> GossipSimulation::letterOf(int index) {
  std::vector<FloatBuffer> parts;
  group(index).own->writeLetter(letter_.span());
  for (int s = 0; s < serverCount(); ++s) {
    const ArenaRange slice = store(s).slice();
    FloatBuffer& part = parts.emplace_back(store(s).takeBuffer());
    std::ranges::copy(letter_.span().subspan(slice.begin, slice.size()), part.data());
  }
  return parts;
}

void GossipSimulation::meet(int index) {
  const Presence& self = presenceOf(index);
  const bool isDue = group(index).job->isDue;
  auto visit = std::make_shared<Visit>(Visit{.group = index,
                                             .life = self.life,
                                             .member = self.member,
                                             .number = ++visitor(index).visits,
                                             .missing = serverCount()});
  if (isDue) visit->letter = letterOf(index);
  visitor(index).mail.assign(static_cast<std::size_t>(serverCount()), {});
  group(index).missing = serverCount();
  beginSending(self.member);
  for (int s = 0; s < serverCount(); ++s) {
    cluster_.network.send(hostOf(index), cluster_.hostOfServer(s), isDue ? bytesOf(s) : 0,
                          [this, s, visit] { receive(s, visit); });
  }
}

void GossipSimulation::receive(int s, const std::shared_ptr<Visit>& visit) {
  const int index = visit->group;
  const GossipVisit who{ownerOf(visit->member), visit->number};
  store(s).visit(
      who, visit->letter.empty() ? FloatBuffer() : std::move(visit->letter[static_cast<std::size_t>(s)]));
  const GossipPost::Found found = *store(s).post().foundBy(who);
  cluster_.network.send(cluster_.hostOfServer(s), hostOf(index), found.part > 0 ? bytesOf(s) : 0,
                        [this, s, index, life = visit->life, found] {
                          if (!isThere(index, life)) return;
                          visitor(index).mail[static_cast<std::size_t>(s)] = found;
                          if (--group(index).missing == 0) readMail(index);
                        });
  if (--visit->missing == 0) endSending(index, visit->member, visit->life);
}

void GossipSimulation::readMail(int index) {
  const std::vector<GossipPost::Found> mail = std::exchange(visitor(index).mail, {});
  for (int s = 0; s < serverCount(); ++s) {
    const GossipPost::Found& found = mail[static_cast<std::size_t>(s)];
    if (found.part == 0) continue;
    group(index).own->readMail(store(s).slice(), found.letters->span(), found.part);
    group(index).hasNewWeights = true;
  }
  conclude(index);
}

}  // namespace cohort
