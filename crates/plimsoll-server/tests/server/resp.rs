//! The RESP port.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Running;

/// Sends bytes, and reads until the connection ends or as much as `until` has come.
pub(crate) async fn say(server: &Running, bytes: &[u8], until: usize) -> String {
    let mut stream = TcpStream::connect(server.resp).await.expect("it works");
    stream.write_all(bytes).await.expect("it works");
    let mut answer = Vec::new();
    while answer.len() < until {
        if stream.read_buf(&mut answer).await.expect("it works") == 0 {
            break;
        }
    }
    String::from_utf8(answer).expect("it works")
}

#[tokio::test]
async fn it_throttles_as_redis_cell_does() {
    let server = Running::start(None, None).await;
    let ask = "CL.THROTTLE anna 1 1 60\r\n".repeat(3) + "QUIT\r\n";
    let said = say(&server, ask.as_bytes(), usize::MAX).await;
    let first = "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60\r\n";
    let second = "*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:120\r\n";
    let third = "*5\r\n:1\r\n:2\r\n:0\r\n:60\r\n:120\r\n";
    assert_eq!(said, format!("{first}{second}{third}+OK\r\n"));
    let crab = say(
        &server,
        b"THROTTLE bert 2 1 60 2\r\nTHROTTLE bert 2 1 60 1\r\nQUIT\r\n",
        usize::MAX,
    )
    .await;
    assert_eq!(
        crab,
        "*5\r\n:1\r\n:2\r\n:0\r\n:120\r\n:0\r\n*5\r\n:0\r\n:2\r\n:0\r\n:120\r\n:60\r\n+OK\r\n"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_limit_is_asked_by_name_and_key() {
    let server = Running::start(None, None).await;
    let ask = b"PLIMSOLL.TAKE logins anna 4\r\nPLIMSOLL.PEEK logins anna 2\r\nPLIMSOLL.TAKE logins anna 2\r\nPLIMSOLL.TAKE logins bert\r\nQUIT\r\n";
    let said = say(&server, ask, usize::MAX).await;
    let verdicts: Vec<&str> = said
        .split("*5\r\n")
        .skip(1)
        .map(|it| it.lines().next().expect("it works"))
        .collect();
    assert_eq!(verdicts, [":0", ":1", ":1", ":0"]);
    let said = say(
        &server,
        b"PLIMSOLL.TAKE no such\r\nPLIMSOLL.TAKE slots anna\r\nQUIT\r\n",
        usize::MAX,
    )
    .await;
    let errors: Vec<&str> = said.lines().collect();
    assert_eq!(errors[0], "-ERR there is no limit `no`");
    assert!(
        errors[1].starts_with("-ERR `slots` limits what is under way"),
        "{said}"
    );
    server.stop().await;
}

#[tokio::test]
async fn clients_find_what_they_need_to_connect() {
    let server = Running::start(None, None).await;
    let ask = b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\nPING\r\nECHO hi\r\nSELECT 0\r\nCLIENT SETINFO lib-name x\r\nCOMMAND DOCS\r\nCONFIG GET save\r\nRESET\r\nQUIT\r\n";
    let said = say(&server, ask, usize::MAX).await;
    assert!(
        said.starts_with("%4\r\n$6\r\nserver\r\n$8\r\nplimsoll\r\n"),
        "{said}"
    );
    assert!(
        said.ends_with("+PONG\r\n$2\r\nhi\r\n+OK\r\n+OK\r\n*0\r\n%0\r\n+RESET\r\n+OK\r\n"),
        "{said}"
    );
    server.stop().await;
}

#[tokio::test]
async fn garbage_is_answered_and_ends_the_connection() {
    let server = Running::start(None, None).await;
    let many = vec![b'a'; 70_000];
    for bytes in [
        &b"*1\r\n:1\r\n"[..],
        b"*99999999\r\n",
        b"*1\r\n$-5\r\n",
        b"*1\rx",
        &many,
    ] {
        let said = say(&server, bytes, usize::MAX).await;
        assert!(said.starts_with("-ERR Protocol error"), "{said}");
    }
    let said = say(
        &server,
        b"CL.THROTTLE\r\nCL.THROTTLE k -1 1 1\r\nCL.THROTTLE k 1 0 60\r\nNONSENSE\r\nQUIT\r\n",
        usize::MAX,
    )
    .await;
    assert_eq!(
        said.lines().filter(|line| line.starts_with("-ERR")).count(),
        4,
        "{said}"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_token_is_asked_for() {
    let server = Running::start(None, Some("s3cret")).await;
    let said = say(&server, b"PLIMSOLL.TAKE logins a\r\nAUTH wrong\r\nAUTH s3cret\r\nPLIMSOLL.TAKE logins a\r\nQUIT\r\n", usize::MAX).await;
    let firsts: Vec<char> = said
        .lines()
        .filter_map(|line| line.chars().next())
        .filter(|it| "-+*".contains(*it))
        .collect();
    assert_eq!(firsts, ['-', '-', '+', '*', '+'], "{said}");
    server.stop().await;
}

/// A wrong password, or `AUTH` and `HELLO` with too few words, ended the session of a client that was authenticated, also where no
/// token is asked for.
#[tokio::test]
async fn a_wrong_password_changes_nothing_for_a_client_that_is_known() {
    let wrong = "AUTH\r\nAUTH a b c\r\nHELLO 3 AUTH a\r\n";
    let take = "PLIMSOLL.TAKE logins a\r\nQUIT\r\n";
    for (token, first) in [
        (None, ""),
        (
            Some("s3cret"),
            "AUTH s3cret\r\nAUTH wrong\r\nHELLO 3 AUTH a wrong\r\n",
        ),
    ] {
        let server = Running::start(None, token).await;
        let asked = [first, wrong, take].concat();
        let said = say(&server, asked.as_bytes(), usize::MAX).await;
        assert!(
            said.contains("-ERR wrong number of arguments for 'auth' command\r\n"),
            "{said}"
        );
        assert!(said.contains("*5\r\n:0\r\n"), "{said}");
        assert_eq!(
            said.matches("-WRONGPASS ").count(),
            first.matches("wrong").count(),
            "{said}"
        );
        server.stop().await;
    }
}
