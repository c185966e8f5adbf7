//! Nothing is allocated to find a key that stands in the request.

use std::hint::black_box;

use crate::counting::allocations;
use http::Request;
use plimsoll_tower::answer::{Fields, LimitStatus};
use plimsoll_tower::keys::{
    CookieKey, Forwarded, HeaderKey, MethodKey, PathKey, Peer, PeerAddr, QueryKey, TrustedProxies,
};
use plimsoll_tower::{Head, KeyFrom, PriorityFrom, PriorityHeader};

#[test]
fn finding_a_key_allocates_nothing() {
    let request = Request::get("/items/7?a=%20&id=7")
        .extension(PeerAddr("127.0.0.1:1".parse().unwrap()))
        .header("x-forwarded-for", "198.51.100.1, 192.0.2.1, 127.0.0.1:80")
        .header(
            "forwarded",
            r#"for="[2001:db8::1]:7";by="a\"b", for=127.0.0.1"#,
        )
        .header("x-key", "abc")
        .header("x-priority", "critical")
        .header("cookie", "a=1; id=7")
        .body(())
        .unwrap();
    let head = Head::of(&request);
    let trusted = TrustedProxies::loopback;
    assert_free(&Peer::new(), &head);
    assert_free(&Forwarded::x_forwarded_for(trusted()), &head);
    assert_free(&Forwarded::rfc_7239(trusted()), &head);
    assert_free(&Forwarded::x_real_ip(trusted()), &head);
    assert_free(&HeaderKey::named("x-key").unwrap(), &head);
    assert_free(&CookieKey::new("id"), &head);
    assert_free(&PathKey::new(), &head);
    assert_free(&QueryKey::new("id"), &head);
    assert_free(&MethodKey, &head);
    let priority = PriorityHeader::default();
    let count = allocations(|| {
        black_box(priority.priority(&head));
    });
    assert_eq!(count, 0);
}

fn assert_free<R: KeyFrom>(key: &R, head: &Head<'_>) {
    assert!(key.key(head).is_some());
    let count = allocations(|| {
        black_box(key.key(head).is_some());
    });
    assert_eq!(count, 0, "{}", std::any::type_name::<R>());
}

#[test]
fn a_list_is_allocated_once_and_a_small_number_not_at_all() {
    use plimsoll::Standing;
    use std::time::Duration;

    let second = Some(Duration::from_secs(1));
    let standing = Standing::new(100, 50)
        .more_after(second)
        .reset(second)
        .window(second);
    let name = "a \"name\" with \u{e4} and more of it";
    let statuses = [LimitStatus::new(name, standing).partition(b"abcd"); 20];
    let mut headers = http::HeaderMap::with_capacity(16);
    let count = allocations(|| Fields::ALL.write(&mut headers, &statuses));
    assert_eq!((headers.len(), count), (5, 2));
    let large = statuses.map(|status| LimitStatus::new(status.name(), Standing::new(5000, 1000)));
    headers.clear();
    let count = allocations(|| Fields::ALL.write(&mut headers, &large));
    assert_eq!((headers.len(), count), (4, 4));
}
