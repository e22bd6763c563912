#include "center/gossip_post.h"

#include <utility>

namespace cohort {

void mix(std::span<float> into, std::span<const float> from, double part) {
  const auto factor = static_cast<float>(part);
  for (std::size_t i = 0; i < into.size(); ++i) into[i] += factor * (from[i] - into[i]);
}

void GossipPost::visit(const GossipVisit& visit, Step version, FloatBuffer letter, std::span<float> center) {
  if (!shares_.has(visit.worker)) shares_.join(visit.worker);
  if (letter.size() > 0) {
    const GossipShares::Sent sent = shares_.send(visit.worker, visit.number);
    mix(center, letter.span(), sent.ofAll);
    if (sent.to) {
      deliver(*sent.to, std::move(letter), sent.ofMail);
    } else {
      pool_->give(std::move(letter));
    }
  }
  Box& box = boxes_[visit.worker];
  box.lastVisit = visit.number;
  box.found = {.version = version, .part = shares_.take(visit.worker)};
  if (box.letters.size() > 0) box.found.letters = pool_->share(std::exchange(box.letters, {}));
}

void GossipPost::deliver(OwnerId to, FloatBuffer letter, double part) {
  FloatBuffer& letters = boxes_[to].letters;
  if (letters.size() == 0) {
    letters = std::move(letter);
    return;
  }
  mix(letters.span(), letter.span(), part);
  pool_->give(std::move(letter));
}

bool GossipPost::leave(OwnerId worker) {
  if (!shares_.has(worker)) return false;
  shares_.leave(worker);
  boxes_.erase(worker);
  return true;
}

const GossipPost::Found* GossipPost::foundBy(const GossipVisit& visit) const {
  const auto box = boxes_.find(visit.worker);
  return box == boxes_.end() || box->second.lastVisit != visit.number ? nullptr : &box->second.found;
}

}  // namespace cohort
