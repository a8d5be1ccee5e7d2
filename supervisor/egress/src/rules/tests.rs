use super::*;

fn secret(placeholder: &str, hosts: &[&str]) -> Secret {
    Secret {
        placeholder: placeholder.to_owned(),
        value: "sk-hidden".to_owned(),
        hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
        header: "Authorization".to_owned(),
    }
}

fn rules(allow: &[&str], secrets: Vec<Secret>) -> Rules {
    let allow = allow.iter().map(|entry| entry.parse().unwrap()).collect();
    Rules { allow, secrets, ..Rules::default() }
}

#[test]
fn an_empty_list_allows_nothing() {
    let host = "example.com".parse().unwrap();
    assert_eq!(Rules::default().verdict(&host, 443), Verdict::Refused(Reason::NotListed));
}

#[test]
fn the_verdict_says_what_is_missing() {
    let mut rules = rules(&["example.com", "GET example.com:8080"], vec![]);
    let host = "example.com".parse().unwrap();
    assert!(matches!(rules.verdict(&host, 443), Verdict::Allowed(entries) if entries.len() == 1));
    assert_eq!(rules.verdict(&host, 22), Verdict::Refused(Reason::PortNotListed));
    let wait = Duration::from_secs(1);
    rules.unlisted = Unlisted::Ask { wait };
    assert_eq!(rules.verdict(&host, 22), Verdict::Ask(wait));
}

#[test]
fn methods_are_refused_where_the_gate_does_not_see_them() {
    let unseen = |allow: &str, secrets| {
        let errors = rules(&[allow], secrets).errors();
        errors.iter().any(|error| matches!(error, RulesError::MethodsUnseen(_)))
    };
    assert!(unseen("GET example.com", vec![]));
    assert!(unseen("GET example.com:443", vec![]));
    assert!(!unseen("GET example.com:80", vec![]));
    assert!(!unseen("GET example.com:8080", vec![]));
    assert!(!unseen("GET example.com", vec![secret("viv-placeholder", &["example.com"])]));
    assert!(unseen("GET *.example.com", vec![secret("viv-placeholder", &["a.example.com"])]));
    assert!(!unseen("GET a.example.com", vec![secret("viv-placeholder", &["*.example.com"])]));
}

#[test]
fn secrets_are_checked_without_being_told() {
    let errors = |change: fn(&mut Secret)| {
        let mut one = secret("viv-placeholder", &["example.com"]);
        change(&mut one);
        rules(&[], vec![one]).errors()
    };
    assert_eq!(errors(|_| ()), []);
    let p = || "viv-placeholder".to_owned();
    assert_eq!(errors(|s| s.placeholder = "x".into()), [RulesError::Placeholder("x".into())]);
    assert_eq!(errors(|s| s.value = "a\r\nb: c".into()), [RulesError::Value(p())]);
    assert_eq!(errors(|s| s.value = String::new()), [RulesError::Value(p())]);
    assert_eq!(errors(|s| s.header = "Host".into()), [RulesError::Header("Host".into())]);
    assert_eq!(errors(|s| s.header = "a b".into()), [RulesError::Header("a b".into())]);
    assert_eq!(errors(|s| s.hosts.clear()), [RulesError::NoHost(p())]);
    let to_address = errors(|s| s.hosts = vec!["1.1.1.1".parse().unwrap()]);
    assert!(matches!(to_address[..], [RulesError::SecretToAddress(_)]));
    let shown = format!("{:?}", rules(&[], vec![secret("viv-placeholder", &["example.com"])]));
    assert!(!shown.contains("sk-hidden") && shown.contains("viv-placeholder"), "{shown}");
}

#[test]
fn placeholders_are_not_within_each_other() {
    let two = vec![secret("viv-placeholder", &["a.com"]), secret("viv-placeholder-2", &["a.com"])];
    let expected = [RulesError::Ambiguous("viv-placeholder".to_owned())];
    assert_eq!(rules(&[], two).errors(), expected);
}

#[test]
fn addresses_are_allowed_by_the_operator_alone() {
    let mut rules = rules(&["10.1.2.3", "1.1.1.1"], vec![]);
    let [private, public] = ["10.1.2.3", "1.1.1.1"].map(|text| text.parse::<IpAddr>().unwrap());
    assert_eq!(rules.refused_address(private, &[]), Some(AddressClass::Private));
    assert_eq!(rules.refused_address(public, &[]), None);
    assert_eq!(rules.refused_address(public, &[public]), Some(AddressClass::Host));
    rules.allow_addresses = vec!["10.1.0.0/16".parse().unwrap(), "1.1.1.1".parse().unwrap()];
    assert_eq!(rules.refused_address(private, &[private]), None);
    assert_eq!(rules.refused_address(public, &[public]), None);
}

#[test]
fn a_limit_of_zero_is_refused() {
    let mut one = Rules::default();
    assert_eq!(one.errors(), []);
    one.limits.max_connections = 0;
    assert_eq!(one.errors(), [RulesError::Zero]);
}
